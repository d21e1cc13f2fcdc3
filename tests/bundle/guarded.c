/* A bundle in exactly its arena, between pages that nothing may touch; and all malformed calls. */
#define _DEFAULT_SOURCE
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROWS (NET_OUTPUT_0_ELEMENTS * sizeof(float))
#define MAP (NET_OUTPUT_1_ELEMENTS * sizeof(float))
#define SCALE (NET_IN_SCALE_ELEMENTS * sizeof(float))

static int failures;

static void expect(int status, int expected, const char *what) {
  if (status == expected) return;
  printf("%s: expected %d, found %d\n", what, expected, status);
  ++failures;
}

/* `bytes` of memory that end, or begin, where a page begins that nothing may touch. */
static void *guarded(size_t bytes, int at_end) {
  const size_t page = 4096, whole = (bytes + page - 1) / page * page;
  unsigned char *got = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED || mprotect(got + page, whole, PROT_READ | PROT_WRITE) != 0) exit(9);
  memset(got + page, 0xff, whole); /* Not a number, wherever it is read. */
  return got + page + (at_end ? whole - bytes : 0);
}

static void *filled(const char *path, size_t bytes, int at_end) {
  FILE *file = fopen(path, "rb");
  void *got = guarded(bytes, at_end);
  if (file == NULL || fread(got, 1, bytes, file) != bytes) exit(8);
  fclose(file);
  return got;
}

int main(int count, char **words) {
  net_weights weights, other;
  net_inputs inputs;
  net_outputs outputs;
  void *arena = NULL;
  FILE *file;
  int at_end;
  if (count != 4) return 7;
  expect(net_builtin_weights(&weights), NET_OK, "weights");
  expect(net_verify_weights(&weights), NET_OK, "checksum");
  for (at_end = 0; at_end < 2; ++at_end) {
    arena = guarded(NET_ARENA_BYTES, at_end);
    inputs.x = filled(words[1], NET_X_ELEMENTS * sizeof(float), at_end);
    inputs.in_scale = filled(words[2], SCALE, at_end);
    outputs.output_0 = guarded(ROWS, at_end);
    outputs.output_1 = guarded(MAP, at_end);
    outputs.output_2 = guarded(ROWS, at_end);
    outputs.output_3 = guarded(SCALE, at_end);
    expect(net_run(&inputs, &outputs, arena, NET_ARENA_BYTES, &weights), NET_OK, "run");
    file = fopen(words[3], at_end ? "ab" : "wb");
    if (file == NULL) return 6;
    fwrite(outputs.output_0, 1, ROWS, file);
    fwrite(outputs.output_1, 1, MAP, file);
    fwrite(outputs.output_2, 1, ROWS, file);
    fwrite(outputs.output_3, 1, SCALE, file);
    fclose(file);
  }
  {
    const net_inputs good_in = inputs;
    const net_outputs good_out = outputs;
    const size_t size = NET_ARENA_BYTES;
    unsigned char *copy = NULL;
#define RUN(status, what) expect(net_run(&inputs, &outputs, arena, size, &weights), status, what)
    expect(net_run(&inputs, &outputs, arena, size - 1, &weights), NET_ERROR_ARENA_SIZE, "a byte fewer");
    expect(net_run(NULL, &outputs, arena, size, &weights), NET_ERROR_NULL, "no inputs");
    expect(net_run(&inputs, NULL, arena, size, &weights), NET_ERROR_NULL, "no outputs");
    expect(net_run(&inputs, &outputs, NULL, size, &weights), NET_ERROR_NULL, "no arena");
    expect(net_run(&inputs, &outputs, arena, size, NULL), NET_ERROR_NULL, "no weights");
    expect(net_run(&inputs, &outputs, (char *)arena + 4, size, &weights), NET_ERROR_ALIGNMENT, "arena");
    expect(net_run(&inputs, &outputs, (void *)(size_t)weights.file, size, &weights), NET_ERROR_OVERLAP, "arena over weights");
    inputs.x = NULL;
    RUN(NET_ERROR_NULL, "an input");
    inputs.x = good_in.x + 1;
    RUN(NET_ERROR_ALIGNMENT, "an input");
    inputs.x = (const float *)arena;
    RUN(NET_ERROR_OVERLAP, "an input in the arena");
    inputs = good_in;
    outputs.output_1 = NULL;
    RUN(NET_ERROR_NULL, "an output");
    outputs.output_1 = good_out.output_1 + 1;
    RUN(NET_ERROR_ALIGNMENT, "an output");
    outputs.output_1 = (float *)(size_t)inputs.x;
    RUN(NET_ERROR_OVERLAP, "an output over an input");
    outputs.output_1 = (float *)arena;
    RUN(NET_ERROR_OVERLAP, "an output in the arena");
    outputs.output_1 = (float *)(size_t)weights.file;
    RUN(NET_ERROR_OVERLAP, "an output over the weights");
    outputs.output_1 = outputs.output_0;
    RUN(NET_ERROR_OVERLAP, "two outputs");
    outputs = good_out;
    memset(&other, 0, sizeof other);
    expect(net_run(&inputs, &outputs, arena, size, &other), NET_ERROR_NULL, "weights of zeros");
    other = weights;
    other.id ^= 1;
    expect(net_run(&inputs, &outputs, arena, size, &other), NET_ERROR_WEIGHTS, "weights of others");
    expect(net_memory_weights(NULL, weights.file, weights.bytes), NET_ERROR_NULL, "nowhere");
    expect(net_memory_weights(&other, NULL, weights.bytes), NET_ERROR_NULL, "no file");
    expect(net_memory_weights(&other, weights.file, weights.bytes - 1), NET_ERROR_WEIGHTS, "a part");
    copy = guarded(NET_WEIGHTS_BYTES, 1);
    memcpy(copy, weights.file, weights.bytes);
    expect(net_memory_weights(&other, copy + 4, weights.bytes), NET_ERROR_ALIGNMENT, "shifted");
    copy[40] ^= 1;
    expect(net_memory_weights(&other, copy, weights.bytes), NET_ERROR_WEIGHTS, "another version");
    copy[40] ^= 1;
    copy[weights.bytes - 100] ^= 1;
    expect(net_memory_weights(&other, copy, weights.bytes), NET_OK, "damage that no head tells");
    expect(net_verify_weights(&other), NET_ERROR_WEIGHTS, "damage");
    expect(net_open_weights(&other, "no/such/file"), NET_ERROR_FILE, "no file");
    expect(net_open_weights(&other, words[1]), NET_ERROR_WEIGHTS, "another file");
    expect(net_open_weights(&other, NULL), NET_ERROR_NULL, "no path");
    expect(net_open_weights(NULL, words[1]), NET_ERROR_NULL, "nowhere");
    net_close_weights(&other);
    net_close_weights(NULL);
    expect(net_status_text(NET_ERROR_OVERLAP) != NULL, 1, "text");
    expect(strcmp(net_status_text(99), net_status_text(-1)), 0, "unknown status");
    RUN(NET_OK, "and again");
  }
  return failures != 0;
}

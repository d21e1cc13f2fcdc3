/* A bundle for OpenCL: malformed calls, and threads that run one set of weights. */
#include "net.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP_BYTES (NET_OUTPUT_1_ELEMENTS * sizeof(float))
enum { THREADS = 3, RUNS = 4 };

static int failures;
static net_weights weights;
static net_inputs inputs;
static void *expected;

static void expect(int status, int wanted, const char *what) {
  if (status == wanted) return;
  printf("%s: expected %d, found %d\n", what, wanted, status);
  ++failures;
}

static void *aligned(size_t bytes) {
  unsigned char *got = malloc(bytes + 2 * NET_ALIGNMENT);
  if (got == NULL) exit(9);
  got += NET_ALIGNMENT - (size_t)((uintptr_t)got % NET_ALIGNMENT);
  memset(got, 0xff, bytes);
  return got;
}

static void *filled(const char *path, size_t bytes) {
  FILE *file = fopen(path, "rb");
  void *got = aligned(bytes);
  if (file == NULL || fread(got, 1, bytes, file) != bytes) exit(8);
  fclose(file);
  return got;
}

static net_outputs made_outputs(void) {
  net_outputs outputs;
  outputs.output_0 = aligned(NET_OUTPUT_0_ELEMENTS * sizeof(float));
  outputs.output_1 = aligned(MAP_BYTES);
  outputs.output_2 = aligned(NET_OUTPUT_2_ELEMENTS * sizeof(float));
  outputs.output_3 = aligned(NET_OUTPUT_3_ELEMENTS * sizeof(float));
  return outputs;
}

static void *thread(void *unused) {
  int number;
  (void)unused;
  for (number = 0; number < RUNS; ++number) {
    const net_outputs outputs = made_outputs();
    if (net_run(&inputs, &outputs, NULL, 0, &weights) != NET_OK) return (void *)1;
    if (memcmp(outputs.output_1, expected, MAP_BYTES) != 0) return (void *)2;
  }
  return NULL;
}

int main(int count, char **words) {
  pthread_t threads[THREADS];
  net_weights other;
  net_outputs outputs;
  int number;
  if (count != 5) return 7;
  memset(&other, 0, sizeof other);
  expect(NET_ARENA_BYTES == 0 && NET_DEVICE_BYTES > NET_WEIGHTS_BYTES, 1, "sizes");
  expect(net_open_weights(&other, words[2]), NET_ERROR_WEIGHTS, "another file");
  expect(net_open_weights(&other, "no/such/file"), NET_ERROR_FILE, "no file");
  expect(net_open_weights(&weights, words[1]), NET_OK, "weights");
  expect(net_verify_weights(&weights), NET_OK, "checksum");
  inputs.x = filled(words[2], NET_X_ELEMENTS * sizeof(float));
  inputs.in_scale = filled(words[3], NET_IN_SCALE_ELEMENTS * sizeof(float));
  expected = filled(words[4], MAP_BYTES);
  outputs = made_outputs();
  expect(net_run(NULL, &outputs, NULL, 0, &weights), NET_ERROR_NULL, "no inputs");
  expect(net_run(&inputs, NULL, NULL, 0, &weights), NET_ERROR_NULL, "no outputs");
  expect(net_run(&inputs, &outputs, NULL, 0, NULL), NET_ERROR_NULL, "no weights");
  expect(net_run(&inputs, &outputs, NULL, 0, &other), NET_ERROR_NULL, "weights of zeros");
  other = weights;
  other.device = NULL;
  expect(net_run(&inputs, &outputs, NULL, 0, &other), NET_ERROR_NULL, "no device");
  other = weights;
  other.id ^= 1;
  expect(net_run(&inputs, &outputs, NULL, 0, &other), NET_ERROR_WEIGHTS, "weights of others");
  outputs.output_1 = (float *)(size_t)inputs.x;
  expect(net_run(&inputs, &outputs, NULL, 0, &weights), NET_ERROR_OVERLAP, "an output over an input");
  for (number = 0; number < THREADS; ++number) expect(pthread_create(&threads[number], NULL, thread, NULL), 0, "thread");
  for (number = 0; number < THREADS; ++number) {
    void *answer = NULL;
    pthread_join(threads[number], &answer);
    expect((int)(intptr_t)answer, 0, "a run in a thread");
  }
  /* Taken from memory, as an app does with its assets; closing it leaves that memory alone. */
  expect(net_memory_weights(&other, weights.file, weights.bytes), NET_OK, "from memory");
  net_close_weights(&other);
  outputs = made_outputs();
  expect(net_run(&inputs, &outputs, NULL, 0, &weights), NET_OK, "and again");
  net_close_weights(&weights);
  net_close_weights(&weights);
  net_close_weights(NULL);
  printf("%d failures\n", failures);
  return failures != 0;
}

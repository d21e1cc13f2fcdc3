/* Classify pictures: classify WEIGHTS PICTURE...
 *
 * A picture is a file of floats, as the model takes it: channels, rows, columns. All memory is taken
 * at the start; weights are mapped, so that several of these programs share them. */
#include "mobilenet.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 5 };

static void *aligned(size_t bytes) {
  unsigned char *got = malloc(bytes + MOBILENET_ALIGNMENT);
  if (got == NULL) {
    fputs("out of memory\n", stderr);
    exit(3);
  }
  return got + MOBILENET_ALIGNMENT - (uintptr_t)got % MOBILENET_ALIGNMENT;
}

static int has_read(const char *path, float *picture) {
  FILE *file = fopen(path, "rb");
  size_t read = 0;
  if (file != NULL) {
    read = fread(picture, sizeof *picture, MOBILENET_IMAGE_ELEMENTS, file);
    fclose(file);
  }
  if (read != MOBILENET_IMAGE_ELEMENTS)
    fprintf(stderr, "%s: expected %lu floats\n", path, (unsigned long)MOBILENET_IMAGE_ELEMENTS);
  return read == MOBILENET_IMAGE_ELEMENTS;
}

/* Print the largest scores, the best first. */
static void show(const char *path, const float *scores) {
  size_t taken[SHOWN], number, best;
  int rank, other;
  printf("%s:", path);
  for (rank = 0; rank < SHOWN && (size_t)rank < MOBILENET_OUTPUT_0_ELEMENTS; ++rank) {
    best = MOBILENET_OUTPUT_0_ELEMENTS;
    for (number = 0; number < MOBILENET_OUTPUT_0_ELEMENTS; ++number) {
      int is_taken = 0;
      for (other = 0; other < rank; ++other) is_taken |= taken[other] == number;
      if (!is_taken && (best == MOBILENET_OUTPUT_0_ELEMENTS || scores[number] > scores[best]))
        best = number;
    }
    taken[rank] = best;
    printf(" %lu (%.3f)", (unsigned long)best, scores[best]);
  }
  putchar('\n');
}

int main(int count, char **words) {
  mobilenet_weights weights;
  mobilenet_inputs inputs;
  mobilenet_outputs outputs;
  float *picture;
  void *arena;
  int status, number;
  if (count < 3) {
    fputs("classify WEIGHTS PICTURE...\n", stderr);
    return 2;
  }
  status = mobilenet_open_weights(&weights, words[1]);
  if (status != MOBILENET_OK) {
    fprintf(stderr, "%s: %s\n", words[1], mobilenet_status_text(status));
    return 2;
  }
  arena = aligned(MOBILENET_ARENA_BYTES);
  picture = aligned(MOBILENET_IMAGE_ELEMENTS * sizeof *picture);
  inputs.image = picture;
  outputs.output_0 = aligned(MOBILENET_OUTPUT_0_ELEMENTS * sizeof(float));
  for (number = 2; number < count; ++number) {
    if (!has_read(words[number], picture)) return 2;
    status = mobilenet_run(&inputs, &outputs, arena, MOBILENET_ARENA_BYTES, &weights);
    if (status != MOBILENET_OK) {
      fprintf(stderr, "%s: %s\n", words[number], mobilenet_status_text(status));
      return 1;
    }
    show(words[number], outputs.output_0);
  }
  mobilenet_close_weights(&weights);
  return 0;
}

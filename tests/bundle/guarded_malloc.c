/* In the place of malloc and memset of the example program: memory that ends before a page that
 * nothing may touch, filled with not-a-number. Blocks of a multiple of 64 bytes end exactly there. */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *guarded_malloc(size_t bytes);
void *filled(void *at, int value, size_t bytes);

void *guarded_malloc(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t whole = (bytes + page - 1) / page * page;
  unsigned char *got =
      mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED || mprotect(got + page, whole, PROT_READ | PROT_WRITE) != 0) return NULL;
  return got + page + whole - bytes;
}

void *filled(void *at, int value, size_t bytes) {
  unsigned char *each = at;
  size_t place;
  for (place = 0; place < bytes; ++place) each[place] = (unsigned char)(value | 0xFF);
  return at;
}

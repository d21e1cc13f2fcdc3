/* A TCG plug-in for qemu-user (plug-in API 1, QEMU 6.0 and later): how often each translated block ran
 * between two marks, and, when asked, which bytes it moved between two levels of cache.
 *
 * A mark is the system call close() of a number that no file has, which any language can make and
 * which fails harmlessly where nobody counts. Options: out=FILE; line=BYTES, l1=BYTES, l1_ways=N,
 * l2=BYTES, l2_ways=N turn the cache model on.
 *
 * What is written at MARK_STOP:
 *   B address executions instructions-in-hex l1-in l1-out l2-in l2-out    (a block; bytes)
 *   M start end offset path                                             (a mapped file)
 *   E                                                                   (the file is complete)
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of qemu/qemu-plugin.h, which no Debian package brings. */
#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
} qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*memory_t)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *);
typedef void (*syscall_t)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *,
                                              uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, memory_t, enum qemu_plugin_cb_flags,
                                      enum qemu_plugin_mem_rw, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, syscall_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

EXPORT int qemu_plugin_version = 1;

#define SYS_CLOSE 57 /* of AArch64 */
#define MARK_WARM 0x7ee10000u  /* the caches begin to fill */
#define MARK_START 0x7ee10001u /* counting begins */
#define MARK_STOP 0x7ee10002u  /* counting ends */

enum { L1_IN, L1_OUT, L2_IN, L2_OUT, MOVED };

typedef struct Block {
    struct Block *next;
    uint64_t address, count, moved[MOVED]; /* lines */
    uint32_t n, code[];
} Block;

#define HASH_BITS 18
#define LONGEST_BLOCK 4096 /* instructions; QEMU ends a block far earlier */
static Block *table[1u << HASH_BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *out_path = "counts.txt";
static uint64_t guest_base;
static bool has_base, fills;

/* ---- the caches: sets of lines, the one that was used longest ago goes; written lines go back ---- */

typedef struct { uint64_t tag, used; bool valid, dirty; } Line;
typedef struct { uint64_t bytes; uint32_t ways, sets; Line *lines; } Cache;
static Cache l1, l2;
static uint64_t line_bytes, clock_;

static void make_cache(Cache *cache)
{
    cache->sets = cache->bytes / line_bytes / cache->ways;
    if (!cache->sets) { fprintf(stderr, "count.c: a cache without sets\n"); exit(1); }
    cache->lines = calloc((size_t)cache->sets * cache->ways, sizeof(Line));
}

/* Touches a line; true when it was not there. `*evicted` is a line that must be written back, or -1. */
static bool touch(Cache *cache, uint64_t tag, bool writes, uint64_t *evicted)
{
    Line *set = &cache->lines[(size_t)(tag % cache->sets) * cache->ways], *oldest = set;
    *evicted = UINT64_MAX;
    for (uint32_t i = 0; i < cache->ways; i++) {
        if (set[i].valid && set[i].tag == tag) {
            set[i].used = ++clock_;
            set[i].dirty |= writes;
            return false;
        }
        if (!set[i].valid) { if (oldest->valid) oldest = &set[i]; }
        else if (oldest->valid && set[i].used < oldest->used) oldest = &set[i];
    }
    if (oldest->valid && oldest->dirty) *evicted = oldest->tag;
    *oldest = (Line){.tag = tag, .used = ++clock_, .valid = true, .dirty = writes};
    return true;
}

static void reach_l2(Block *block, uint64_t tag, bool writes)
{
    uint64_t evicted;
    /* A line written back from above is whole: it is not read from below. */
    if (touch(&l2, tag, writes, &evicted) && !writes) block->moved[L2_IN]++;
    if (evicted != UINT64_MAX) block->moved[L2_OUT]++;
}

static void on_memory(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    if (!fills) return;
    Block *block = data;
    bool writes = qemu_plugin_mem_is_store(info);
    uint64_t last = address + (1u << qemu_plugin_mem_size_shift(info)) - 1;
    for (uint64_t tag = address / line_bytes; tag <= last / line_bytes; tag++) {
        uint64_t evicted;
        if (!touch(&l1, tag, writes, &evicted)) continue;
        block->moved[L1_IN]++;
        if (evicted != UINT64_MAX) { block->moved[L1_OUT]++; reach_l2(block, evicted, true); }
        reach_l2(block, tag, false);
    }
}

/* ---- the blocks ---- */

static Block *block_of(uint64_t address, uint32_t n, const uint32_t *code)
{
    Block **slot = &table[((address >> 2) * 0x9e3779b97f4a7c15ull) >> (64 - HASH_BITS)];
    for (Block *b = *slot; b; b = b->next)
        if (b->address == address && b->n == n && !memcmp(b->code, code, sizeof *code * n)) return b;
    Block *b = calloc(1, sizeof(Block) + sizeof *code * n);
    if (!b) { perror("count.c"); exit(1); }
    b->address = address;
    b->n = n;
    memcpy(b->code, code, sizeof *code * n);
    b->next = *slot;
    return *slot = b;
}

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint32_t code[LONGEST_BLOCK], n = qemu_plugin_tb_n_insns(tb);
    if (n > LONGEST_BLOCK) { fprintf(stderr, "count.c: a block of %u instructions\n", n); exit(1); }
    for (uint32_t i = 0; i < n; i++)
        memcpy(&code[i], qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), sizeof *code);
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    pthread_mutex_lock(&lock);
    if (!has_base) {
        guest_base = (uint64_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0)) - address;
        has_base = true;
    }
    Block *block = block_of(address, n, code);
    pthread_mutex_unlock(&lock);
    /* Inline: no call a block. Exact for one thread; several would lose counts to each other. */
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->count, 1);
    if (!l1.bytes) return;
    for (uint32_t i = 0; i < n; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_memory,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, block);
}

static void forget(void)
{
    for (uint32_t i = 0; i < 1u << HASH_BITS; i++)
        for (Block *b = table[i]; b; b = b->next) {
            b->count = 0;
            memset(b->moved, 0, sizeof b->moved);
        }
}

static void write_blocks(FILE *file)
{
    for (uint32_t i = 0; i < 1u << HASH_BITS; i++)
        for (Block *b = table[i]; b; b = b->next) {
            if (!b->count) continue;
            fprintf(file, "B %" PRIx64 " %" PRIu64 " ", b->address, b->count);
            for (uint32_t k = 0; k < b->n; k++) fprintf(file, "%08x", b->code[k]);
            for (int k = 0; k < MOVED; k++) fprintf(file, " %" PRIu64, b->moved[k] * line_bytes);
            fputc('\n', file);
        }
}

static void write_mappings(FILE *file)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t start, end, offset;
        int path_at = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &start, &end, &offset,
                   &path_at) < 3 || !path_at || line[path_at] != '/' || start < guest_base)
            continue;
        fprintf(file, "M %" PRIx64 " %" PRIx64 " %" PRIx64 " %s", start - guest_base,
                end - guest_base, offset, line + path_at);
    }
    if (maps) fclose(maps);
}

static void on_syscall(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    if (number != SYS_CLOSE) return;
    if ((uint32_t)a1 == MARK_WARM) fills = true;
    if ((uint32_t)a1 == MARK_START) forget();
    if ((uint32_t)a1 != MARK_STOP) return;
    fills = false;
    FILE *file = fopen(out_path, "w");
    if (!file) { perror(out_path); return; }
    write_blocks(file);
    write_mappings(file);
    fputs("E\n", file);
    fclose(file);
}

static uint64_t number_of(const char *word, const char *name, uint64_t otherwise)
{
    size_t n = strlen(name);
    return strncmp(word, name, n) || word[n] != '=' ? otherwise : strtoull(word + n + 1, NULL, 10);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4)) out_path = strdup(argv[i] + 4);
        line_bytes = number_of(argv[i], "line", line_bytes);
        l1.bytes = number_of(argv[i], "l1", l1.bytes);
        l2.bytes = number_of(argv[i], "l2", l2.bytes);
        l1.ways = number_of(argv[i], "l1_ways", l1.ways);
        l2.ways = number_of(argv[i], "l2_ways", l2.ways);
    }
    if (l1.bytes) {
        if (!line_bytes || !l2.bytes || !l1.ways || !l2.ways) return 1;
        make_cache(&l1);
        make_cache(&l2);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    return 0;
}

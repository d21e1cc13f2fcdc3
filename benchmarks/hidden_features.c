/* Hides AVX-512, AMX and AVX-VNNI from what runs in this process: it meets a machine with AVX2.

   Loaded first (LD_PRELOAD). Linux lets the instruction that tells the processor's features fault
   (arch_prctl, ARCH_SET_CPUID); the handler asks it and leaves those bits out. Threads and forked
   children inherit the fault; a program that is executed loads this anew. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* CANNOT is hidden_features.py's exit code. */
enum { FEATURES = 7, CPUID_BYTES = 2, CANNOT = 3 };

/* Intel's manual, volume 2A, CPUID, leaf 7: the bits of each register to leave out. */
static const uint32_t hidden_ebx = 1u << 16 | 1u << 17 | 1u << 21 | 3u << 26 | 1u << 28 | 3u << 30;
static const uint32_t hidden_ecx = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;
static const uint32_t hidden_edx = 1u << 2 | 1u << 3 | 1u << 8 | 7u << 22 | 1u << 25;

static struct sigaction before;

static long let_cpuid(int work)
{
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, work);
}

static void answer(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    uint32_t a, b, c, d;
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        /* Not ours: it is met again with the handler of before. */
        sigaction(number, &before, NULL);
        return;
    }
    uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
    let_cpuid(1);
    __cpuid_count(leaf, part, a, b, c, d);
    let_cpuid(0);
    if (leaf == FEATURES && part == 0) {
        b &= ~hidden_ebx;
        c &= ~hidden_ecx;
        d &= ~hidden_edx;
    } else if (leaf == FEATURES && part == 1) {
        /* AVX-VNNI and what came after it. */
        a = b = c = d = 0;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += CPUID_BYTES;
}

__attribute__((constructor)) static void hide(void)
{
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &before) != 0 || let_cpuid(0) != 0) {
        fputs("hidden_features: this kernel or processor does not let CPUID fault\n", stderr);
        _exit(CANNOT);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Types and small functions that the core needs. In a kernel, and in a BPF program, the wrapper has them
 * before; on a host the C library has them. The core itself includes no kernel header.
 *
 * Whoever includes bbr.c also supplies
 *	static u32 bbr_random_below(u32 ceiling);	a random number from 0 to ceiling - 1
 * and what bbr_ring.h asks for.
 */
#ifndef BBR_PLATFORM_H
#define BBR_PLATFORM_H

#if defined(__KERNEL__) || defined(__bpf__)

#define bbr_divide(dividend, divisor) div_u64(dividend, divisor)
#define bbr_rare(condition) unlikely(condition)

#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;

static inline u64 bbr_divide(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

#define bbr_rare(condition) __builtin_expect(!!(condition), 0)

#endif

/* Functions that most ACKs do without: what most ACKs run stays together. bbr_seldom is once in a round, bbr_rarely less. */
#define bbr_seldom __attribute__((__noinline__))
#ifdef __bpf__
#define bbr_rarely bbr_seldom
#else
#define bbr_rarely __attribute__((__cold__, __noinline__))
#endif

#define BBR_CACHE_LINE 64
#define BBR_CACHE_ALIGNED __attribute__((__aligned__(BBR_CACHE_LINE)))

/* Asks the processor to fetch a line of its cache. A compiler that may not use SSE, as for a kernel, drops its builtin. */
static inline void bbr_prefetch(const void *address)
{
#ifdef __x86_64__
	__asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)address));
#elif defined(__bpf__)
	(void)address;
#else
	__builtin_prefetch(address);
#endif
}

static inline u32 bbr_min(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 bbr_max(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* Whether counter a is before b; counters of 32 bits wrap around. */
static inline bool bbr_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static u32 bbr_random_below(u32 ceiling);

#endif

/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Types and small functions that the core needs. In a kernel, and in a BPF program, the wrapper has them
 * before; on a host the C library has them. The core itself includes no kernel header.
 *
 * Whoever includes bbr.c also supplies
 *	static u32 bbr_random_below(u32 ceiling);	a random number from 0 to ceiling - 1
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

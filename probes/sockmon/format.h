/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream, version 1, as README.md documents it: a header, then records. Numbers are in the byte
 * order of the machine that records; the header says which. Every struct here has its natural
 * alignment and no padding.
 */
#ifndef CCMIX_FORMAT_H
#define CCMIX_FORMAT_H

#include <stdint.h>

#define STREAM_MAGIC "CCMIXMON"
#define STREAM_VERSION 1
#define STREAM_BYTE_ORDER 0x01020304

struct stream_header {
	char magic[8];
	uint32_t byte_order;
	uint32_t version;
	uint64_t start_mono_ns;
	uint64_t start_wall_ns;
	uint32_t reserved;
	/* lines KEY=VALUE that follow; a multiple of 8, filled up with line ends */
	uint32_t text_bytes;
};

/* Every record begins with this, and is a multiple of 8 bytes long. */
struct record {
	uint32_t bytes;		/* of the whole record, this included */
	uint32_t type;
};

enum record_type {
	RECORD_SOCKET = 1,	/* identities: one struct each */
	RECORD_QUEUE = 2,
	RECORD_COUNTER = 3,
	RECORD_PROCESS = 4,
	RECORD_SOCKETS = 16,	/* samples: struct sample, then rows */
	RECORD_CLOSED = 17,	/* rows as of RECORD_SOCKETS: final counters, from destroy events */
	RECORD_QUEUES = 18,
	RECORD_LINKS = 19,
	RECORD_COUNTERS = 20,
	RECORD_CPU = 21,
	RECORD_PROCESSES = 22,
	RECORD_BBR = 23,	/* of sockets in the RECORD_SOCKETS before it */
	RECORD_BBR_INFO = 24,	/* likewise */
	RECORD_NOTE = 32,	/* text, filled up with zero bytes */
	/* lines KEY=VALUE, filled up with zero bytes; the last record of a whole stream */
	RECORD_REPORT = 33,
};

struct sample {
	uint64_t mono_ns;	/* CLOCK_MONOTONIC when it began */
	uint64_t wall_ns;	/* CLOCK_REALTIME then */
	uint32_t took_ns;
	uint32_t rows;
	uint32_t row_bytes;
	uint32_t info_bytes;	/* of struct tcp_info at the end of a socket's row; else 0 */
};

struct id_socket {
	uint32_t id;
	uint32_t target;	/* sockets.N of the header */
	uint64_t cookie;
	uint64_t mono_ns;	/* when the probe first saw it */
	uint32_t family;	/* AF_INET or AF_INET6 */
	uint16_t local_port;
	uint16_t remote_port;
	uint32_t ifindex;	/* of the device that it is bound to, or 0 */
	uint32_t uid;
	uint32_t inode;
	uint32_t reserved;
	uint8_t local[16];	/* IPv4: the first four */
	uint8_t remote[16];
	char cca[16];		/* empty: only its destroy event was seen, which lacks it */
};

struct id_queue {
	uint32_t id;
	uint32_t device;	/* device.N of the header */
	uint32_t handle;
	uint32_t parent;
	char kind[16];
};

struct id_counter {
	uint32_t id;
	uint32_t target;	/* counters.N of the header */
	int32_t core;		/* -1: not of a core */
	char name[44];
};

struct id_process {
	uint32_t id;
	uint32_t pid;
	uint32_t parent;
	uint32_t reserved;
	uint64_t started_ticks;	/* since boot */
	char name[24];
};

/* Bits of row_socket.has: the parts that the kernel sent. */
#define HAS_MEMORY 1
#define HAS_VEGAS 2
#define HAS_DCTCP 4
#define HAS_BBR 8

struct row_socket {
	uint32_t id;
	uint8_t state;
	uint8_t timer;
	uint8_t timer_retransmits;
	uint8_t has;
	uint32_t timer_expires_ms;
	uint32_t recv_queue_bytes;
	uint32_t send_queue_bytes;
	uint32_t memory[9];	/* enum SK_MEMINFO_* */
	uint32_t cca_state[5];	/* struct tcp_bbr_info, tcp_dctcp_info or tcpvegas_info */
	uint32_t reserved;
	/* then struct tcp_info, sample.info_bytes of it */
};

/* The phases of BBR's later versions, as their files name them */
enum bbr_phase {
	BBR_STARTUP,
	BBR_DRAIN,
	BBR_PROBE_BW_DOWN,
	BBR_PROBE_BW_CRUISE,
	BBR_PROBE_BW_REFILL,
	BBR_PROBE_BW_UP,
	BBR_PROBE_RTT,
	BBR_PHASES,
};

#define BBR_NOT_SET UINT64_MAX	/* a bound that is not set; of 32 bits, UINT32_MAX */

struct row_bbr {
	uint32_t id;		/* the socket's */
	uint32_t phase;		/* enum bbr_phase */
	uint64_t bw_lo_bps;
	uint32_t inflight_hi_packets;
	uint32_t inflight_lo_packets;
	uint32_t cycle;		/* of PROBE_BW: how many have begun */
	uint32_t reserved;
};

/* What row_socket.cca_state has of other sockets: the kernel sends none where the CCA is a BPF program. */
struct row_bbr_info {
	uint32_t id;		/* the socket's */
	uint32_t info[5];	/* struct tcp_bbr_info */
};

#define XSTATS_BYTES 160

struct row_queue {
	uint32_t id;
	uint32_t xstats_bytes;
	uint64_t bytes;
	uint64_t packets;
	uint32_t backlog_packets;
	uint32_t backlog_bytes;
	uint32_t drops;
	uint32_t requeues;
	uint32_t overlimits;
	uint32_t least_backlog_bytes;	/* since the sample before, both included; 0: not watched */
	uint8_t xstats[XSTATS_BYTES];	/* what qdiscs of this kind count beyond these */
};

#define LINK_COUNTERS 25

struct row_link {
	uint32_t device;
	uint32_t known;		/* how many of the counters the kernel has */
	uint64_t counters[LINK_COUNTERS];	/* struct rtnl_link_stats64 */
};

struct row_counter {
	uint32_t id;
	uint32_t reserved;
	uint64_t value;
};

struct row_cpu {
	uint32_t core;
	uint32_t frequency_khz;	/* 0: not known */
	uint64_t ticks[10];	/* as in /proc/stat */
};

struct row_process {
	uint32_t id;
	uint32_t threads;
	uint64_t user_ticks;
	uint64_t system_ticks;
	uint64_t memory_pages;
};

#endif

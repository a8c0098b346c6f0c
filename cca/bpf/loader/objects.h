/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF objects, which are a part of this program, opened by libbpf. */
#ifndef OBJECTS_H
#define OBJECTS_H

struct bpf_object;

/* They end the program on failure. */
struct bpf_object *open_bbr(void);
struct bpf_object *open_status(void);
struct bpf_object *open_sockets(void);

/* Keeps libbpf's messages from standard error, unless `verbose`. */
void set_verbose(int verbose);

#endif

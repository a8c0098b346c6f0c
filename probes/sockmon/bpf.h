/* SPDX-License-Identifier: Apache-2.0 */
/* BPF iterators and maps, which another program has loaded and which the probe inherits. */
#ifndef SOCKMON_BPF_H
#define SOCKMON_BPF_H

/* Returns a descriptor that reads an iterator's output once, from its beginning, or -1 with errno. */
int bpf_iterate(int link);

/* Puts an element into a map, or removes it; does nothing where the kernel refuses. */
void bpf_put(int map, const void *key, const void *value);
void bpf_remove(int map, const void *key);

#endif

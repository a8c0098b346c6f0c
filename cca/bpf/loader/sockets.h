/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that tell ccmix-sockmon of TCP sockets. */
#ifndef SOCKETS_H
#define SOCKETS_H

/*
 * Loads the programs, and puts the numbers of their descriptors, which the next program inherits, into CCMIX_SOCKETS. Does
 * nothing where the programs do not know all that the kernel says of a socket.
 */
void hand_over_sockets(void);

#endif

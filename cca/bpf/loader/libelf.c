// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * The static libelf of Debian 13 calls two functions that are in none of its packages. They set up and free a tree of
 * the chunks that elf_getdata_rawchunk() has read. libbpf reads none, so the tree is empty. A libelf that has the
 * functions takes the place of these.
 */
void eu_search_tree_init(void *tree);
void eu_search_tree_fini(void *tree, void (*free_node)(void *node));

__attribute__((weak)) void eu_search_tree_init(void *tree)
{
	(void)tree;
}

__attribute__((weak)) void eu_search_tree_fini(void *tree, void (*free_node)(void *node))
{
	(void)tree;
	(void)free_node;
}

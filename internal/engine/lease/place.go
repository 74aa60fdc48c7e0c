package lease

import (
	"hash/fnv"
	"strconv"
)

// place says whose a slot should be: that of the nodes with which it has the highest number. When a node comes or goes, only its own
// slots move.
func place(kind string, slot int, nodes []string) (node string) {
	var best uint64
	for _, n := range nodes {
		if w := weight(kind, slot, n); node == "" || w > best || w == best && n > node {
			node, best = n, w
		}
	}
	return node
}

func weight(kind string, slot int, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + strconv.Itoa(slot) + "\x00" + node)) // it cannot fail
	// Names that differ in their last letter alone would get numbers that hardly differ.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

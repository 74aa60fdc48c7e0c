package lease

import (
	"hash/fnv"
	"strconv"
)

// preferredNode returns the node that should hold a slot: the one with the highest weight for it (rendezvous hashing).
// When a node joins or leaves, only its own slots move. The result does not depend on the order of nodes, so all nodes
// that see the same set agree. It is empty if there are no nodes.
func preferredNode(kind string, slot int, nodes []string) (node string) {
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
	_, _ = h.Write([]byte(kind + "\x00" + strconv.Itoa(slot) + "\x00" + node)) // never fails
	// FNV barely mixes the last byte into the high bits, so names that differ only in their last letter would have
	// similar weights. These steps, the finaliser of MurmurHash3, spread the difference over all bits.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

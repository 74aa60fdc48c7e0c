package apikey

import (
	"net/netip"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// MaxNetworks bounds the networks of a key.
const MaxNetworks = 50

// MayComeFrom reports whether the key may be used from an address. It runs on every call and does not allocate. An
// address that is not known is in no network.
func (a *Allow) MayComeFrom(addr netip.Addr) bool {
	if a.Networks == nil {
		return true
	}
	addr = addr.Unmap().WithZone("")
	for i := range a.Networks {
		if a.Networks[i].Contains(addr) {
			return true
		}
	}
	return false
}

// containsNetwork reports whether the key may be used from every address of a network.
func (a *Allow) containsNetwork(one netip.Prefix) bool {
	return a.Networks == nil || slices.ContainsFunc(a.Networks, func(held netip.Prefix) bool {
		return held.Bits() <= one.Bits() && held.Contains(one.Addr())
	})
}

// parseNetworks parses networks in CIDR notation and adds every error to bad. The result is never nil.
func parseNetworks(bad *problem.Error, texts []string) []netip.Prefix {
	if len(texts) == 0 || len(texts) > MaxNetworks {
		bad.At("/allowedIps", "items", "must have 1 to 50 networks; leave it out to allow all addresses")
	}
	networks := []netip.Prefix{}
	for i, text := range texts {
		one, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			bad.At("/allowedIps/"+itoa(i), "format", "must be a network in CIDR notation, such as 203.0.113.0/24, 203.0.113.7/32 or 2001:db8::/32")
		case one.Addr().Is4In6():
			bad.At("/allowedIps/"+itoa(i), "format", "must be written as an IPv4 network")
		case one != one.Masked():
			bad.At("/allowedIps/"+itoa(i), "format", "must begin with the first address of the network: "+one.Masked().String())
		case !slices.Contains(networks, one):
			networks = append(networks, one)
		}
	}
	return networks
}

// parseStoredNetworks parses the networks of a stored key. One that this version does not understand allows no address.
func parseStoredNetworks(texts []string) []netip.Prefix {
	if texts == nil {
		return nil
	}
	networks := []netip.Prefix{}
	for _, text := range texts {
		if one, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, one)
		}
	}
	return networks
}

// networkTexts returns networks in CIDR notation; nil for nil.
func networkTexts(networks []netip.Prefix) []string {
	if networks == nil {
		return nil
	}
	texts := make([]string, len(networks))
	for i, one := range networks {
		texts[i] = one.String()
	}
	return texts
}

// NetworkTexts returns the networks in CIDR notation; nil if the key may be used from anywhere.
func (a *Allow) NetworkTexts() []string { return networkTexts(a.Networks) }

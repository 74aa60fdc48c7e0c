package dev

import (
	"context"
	"io"
)

var (
	FindClone = findClone
	ReadEnv   = readEnv
)

// ChoosePorts opens a data directory and chooses its ports.
func ChoosePorts(dir string, wanted map[string]int, asked int) (map[string]int, error) {
	s, err := openState(dir)
	if err != nil {
		return nil, err
	}
	err = s.choosePorts(wanted, asked)
	return s.Ports, err
}

// ServeProxy starts the proxy of a region.
func ServeProxy(ctx context.Context, address, source, target, password string) (io.Closer, error) {
	return (&proxy{source: source, target: target, password: password}).serve(ctx, address)
}

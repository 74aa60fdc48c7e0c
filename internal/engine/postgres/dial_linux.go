package postgres

import "golang.org/x/sys/unix"

// setUserTimeout makes the kernel close a connection whose sent data is not confirmed within silence.
func setUserTimeout(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
}

package postgres

import (
	"net"
	"strings"
	"syscall"
	"time"
)

// silence is how long a connection may be without any sign of the server's machine. The kernel then closes it, also if
// a statement waits for its result.
const silence = 10 * time.Second

// newDialer returns a dialer whose connections notice that the network swallows packets: sent data must be confirmed
// within silence, and a connection that waits is probed.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 5, Count: 3},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var failed error
			if err := raw.Control(func(fd uintptr) { failed = setUserTimeout(int(fd)) }); err != nil {
				return err
			}
			return failed
		},
	}
}

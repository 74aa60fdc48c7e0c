package testenv_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// While packets are dropped, nothing arrives and the connection stays open. Afterwards everything arrives.
func TestDroppedPacketsAreSentAgain(t *testing.T) {
	t.Parallel()
	if err := testenv.CanDropPackets(); err != nil {
		t.Skipf("this machine cannot run the test: %v", err)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { echo.Close() })
	go func() {
		conn, err := echo.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
		}
	}()
	link := testenv.NewSlowLink(t, echo.Addr().String())
	conn, err := net.Dial("tcp", link.Address)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	say := func(text string) {
		_, err := conn.Write([]byte(text))
		must.OK(t, err)
	}
	heard := func(n int) string {
		text := make([]byte, n)
		_, err := io.ReadFull(conn, text)
		must.OK(t, err)
		return string(text)
	}
	say("one")
	if got := heard(3); got != "one" {
		t.Errorf("heard %q", got)
	}
	restore := testenv.DropPackets(t, 1, link)
	say("two")
	must.OK(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes arrived: %v", n, err)
	}
	must.OK(t, conn.SetReadDeadline(time.Time{}))
	restore()
	if got := heard(3); got != "two" {
		t.Errorf("heard %q", got)
	}
}

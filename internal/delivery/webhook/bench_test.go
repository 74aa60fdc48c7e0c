package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// canned responds to every request with 200 and does almost no work itself.
func canned(b testing.TB, count *atomic.Int64) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 16<<10)
				for {
					// A request is smaller than the buffer and arrives in one or two reads: the header, and the body.
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					for !bytes.HasSuffix(buffer[:n], []byte("}}")) {
						more, err := conn.Read(buffer[n:])
						if err != nil {
							return
						}
						n += more
					}
					count.Add(1)
					if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String() + "/"
}

const benchLanes = 64

// BenchmarkDelivery compares deliveries with a bare loop: as many goroutines that only sign and post.
func BenchmarkDelivery(b *testing.B) {
	body := event.AppendEnvelope(nil, &event.Envelope{
		ID: id.New[id.Event](), Kind: "message", Account: "acct_1", At: clock.Now(), Seq: 1, Data: []byte(`{"text":"` + string(bytes.Repeat([]byte("x"), 700)) + `"}`),
	})
	b.Run("bare", func(b *testing.B) {
		var count atomic.Int64
		url := canned(b, &count)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchLanes}}
		work := make(chan []byte, 1024)
		var all sync.WaitGroup
		for range benchLanes {
			all.Go(func() {
				for text := range work {
					mac := hmac.New(sha256.New, []byte("whsec_secret"))
					mac.Write(text)
					req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(text))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("X-Webhook-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		}
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			work <- body
		}
		close(work)
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("lanes", func(b *testing.B) {
		r := newFixture(b)
		r.config = webhook.Defaults()
		var count atomic.Int64
		url := canned(b, &count)
		list := make([]account.Account, benchLanes)
		for i := range list {
			list[i] = r.account()
		}
		n := r.node(bucketsOf(list...)...)
		next := make([]int64, benchLanes)
		for _, a := range list {
			r.put(n, a, webhook.Change{URL: url})
		}
		until(b, "all lanes are live", func() bool { return r.rows("SELECT count(*) FROM webhook_lane") == 0 })
		send := func(total int, seqs []int64) {
			from := count.Load()
			for sent := 0; sent < total; {
				// Like a batch from ingest: a few events of each account.
				var batch []event.Stored
				for i, a := range list {
					for k := 0; k < 4 && sent < total; k++ {
						seqs[i]++
						batch = append(batch, event.Stored{
							Org: a.Org, Source: string(a.ID), Seq: seqs[i], At: clock.Now(), ID: id.New[id.Event](), Kind: "message", Body: body,
						})
						sent++
					}
				}
				n.Committed(batch)
				for end := time.Now().Add(20 * time.Second); count.Load()-from < int64(sent-benchLanes*8) && time.Now().Before(end); {
					time.Sleep(100 * time.Microsecond)
				}
			}
			for end := time.Now().Add(20 * time.Second); count.Load()-from < int64(total); time.Sleep(100 * time.Microsecond) {
				if time.Now().After(end) {
					b.Fatalf("%d of %d events were delivered", count.Load()-from, total)
				}
			}
		}
		send(benchLanes*8, next)
		b.ReportAllocs()
		b.ResetTimer()
		send(b.N, next)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

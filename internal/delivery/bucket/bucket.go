// Package bucket stores and delivers the events of the buckets that a node holds. Package ingest stores them, package
// webhook delivers them; this package starts and ends both in the right order.
package bucket

import (
	"context"
	"sync"

	"github.com/stagedoor/stagedoor/internal/engine/lease"
)

// A part works on buckets. Run ends after the last Hold has returned. Hold works on a bucket until its context ends, or
// returns early if a newer lease has claimed the bucket.
type (
	// writer calls claimed when holders of older leases cannot store events of the bucket any more.
	writer interface {
		Run(ctx context.Context) error
		Hold(ctx context.Context, bucket int, epoch int64, claimed func())
	}
	sender interface {
		Run(ctx context.Context) error
		Hold(ctx context.Context, bucket int, epoch int64)
	}
)

// Deps are the dependencies of Run.
type Deps struct {
	// Leases assigns the buckets, one slot each.
	Leases *lease.Leases
	// Ingest moves events from the log into the store. *ingest.Ingest implements it.
	Ingest writer
	// Webhooks delivers stored events. *webhook.Webhooks implements it.
	Webhooks sender
}

// Run works on the buckets that this node holds until ctx ends.
func Run(ctx context.Context, d Deps) error {
	// Both parts outlive the leases, which end when the last batch is written.
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	written, sent := make(chan error, 1), make(chan error, 1)
	go func() { written <- d.Ingest.Run(living) }()
	go func() { sent <- d.Webhooks.Run(living) }()
	err := d.Leases.Run(ctx, d.hold)
	stop()
	<-written
	<-sent
	return err
}

// hold writes a bucket and sends its webhooks until it is released. Sending starts when the bucket is claimed for writing:
// it begins with what is stored then, and a node that froze in the middle of a batch could still store it before. It ends
// after writing, so that the last batch is sent. If either is fenced off, the other ends too, and the new owner takes the
// bucket with its next heartbeat.
func (d Deps) hold(ctx context.Context, h lease.Held) {
	writing, fenced := context.WithCancel(ctx)
	defer fenced()
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sent sync.WaitGroup
	d.Ingest.Hold(writing, h.Slot, h.Epoch, func() {
		sent.Go(func() {
			defer fenced()
			d.Webhooks.Hold(sending, h.Slot, h.Epoch)
		})
	})
	stop()
	sent.Wait()
}

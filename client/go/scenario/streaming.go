package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// reader reads a stream in the background, and keeps the messages.
type reader struct {
	stream     *stagedoor.EventStream
	got        chan *stagedoor.Event
	failed     chan error
	ids, texts []string
}

func read(stream *stagedoor.EventStream) *reader {
	r := &reader{stream: stream, got: make(chan *stagedoor.Event, 64), failed: make(chan error, 1)}
	go func() {
		for event, err := range stream.All() {
			if err != nil {
				r.failed <- err
				return
			}
			r.got <- event
		}
	}()
	return r
}

// until waits until so many messages have come.
func (r *reader) until(count int) error {
	late := time.After(patience)
	for len(r.texts) < count {
		select {
		case event := <-r.got:
			data, ok := event.Data.(*stagedoor.MessageData)
			if !ok {
				return fmt.Errorf("another event came: %s", event.Raw)
			}
			r.ids, r.texts = append(r.ids, event.ID), append(r.texts, data.Message.Text)
		case err := <-r.failed:
			return err
		case <-late:
			return fmt.Errorf("%d messages have come, not %d: %v", len(r.texts), count, r.texts)
		}
	}
	return nil
}

// streaming has events before, while and after the connection is down; then on another node.
func (s *scenario) streaming(ctx context.Context, account string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	between, err := newRelay(s.node(0))
	if err != nil {
		return err
	}
	defer between.stop()
	through, err := stagedoor.New(stagedoor.Options{BaseURL: between.url()})
	if err != nil {
		return err
	}
	drops := make(chan error, 1024)
	r := read(through.Account(account).Stream(ctx, stagedoor.StreamOptions{
		Since: "0", Events: []string{"message"}, OnDrop: func(err error, _ time.Duration) { drops <- err },
	}))
	var want []string
	fire := func(numbers ...int) (string, error) {
		texts, err := s.fire(ctx, account, numbers...)
		want = append(want, texts...)
		return fmt.Sprintf("%d messages", len(texts)), err
	}
	return steps(
		func() error { return step("fire events", func() (string, error) { return fire(1, 2, 3) }) },
		func() error {
			return step("receive them by a stream", func() (string, error) {
				err := r.until(3)
				return "cursor " + r.stream.Cursor(), err
			})
		},
		func() error {
			return step("cut the connection", func() (string, error) { between.cut(); return "", nil })
		},
		func() error {
			return step("fire more while it is down", func() (string, error) { return fire(4, 5, 6) })
		},
		func() error {
			return step("mend it, to another node", func() (string, error) { between.mend(s.node(1)); return s.node(1), nil })
		},
		func() error {
			return step("resume without a loss", func() (string, error) {
				err := r.until(6)
				return fmt.Sprintf("after %d drops", len(drops)), err
			})
		},
		func() error {
			return step("resume on a third node", func() (string, error) {
				between.cut()
				between.mend(s.node(2))
				if _, err := fire(7); err != nil {
					return "", err
				}
				return s.node(2), r.until(7)
			})
		},
		func() error {
			return step("each once, in order", func() (string, error) {
				if !slices.Equal(r.texts, want) || different(r.ids) != len(want) {
					return "", fmt.Errorf("%v have come, not %v", r.texts, want)
				}
				return "", nil
			})
		},
		func() error {
			return step("go on from a kept cursor", func() (string, error) { return s.goOn(ctx, account, r) })
		},
	)
}

// goOn follows with another client, on another node, behind what was read.
func (s *scenario) goOn(ctx context.Context, account string, before *reader) (string, error) {
	other, err := stagedoor.New(stagedoor.Options{BaseURL: s.node(1)})
	if err != nil {
		return "", err
	}
	kept := before.stream.Cursor() // now: the first reader follows what is fired next as well
	if _, err := s.fire(ctx, account, 8); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for event, err := range other.Account(account).Stream(ctx, stagedoor.StreamOptions{Since: kept, Events: []string{"message"}}).All() {
		if err != nil {
			return "", err
		}
		if slices.Contains(before.ids, event.ID) {
			return "", fmt.Errorf("%s came twice", event.ID)
		}
		return event.ID, nil
	}
	return "", nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// reader reads a stream in the background and collects its messages.
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

// waitFor waits until count messages have arrived.
func (r *reader) waitFor(count int) error {
	late := time.After(timeout)
	for len(r.texts) < count {
		select {
		case event := <-r.got:
			data, ok := event.Data.(*stagedoor.MessageData)
			if !ok {
				return fmt.Errorf("unexpected event: %s", event.Raw)
			}
			r.ids, r.texts = append(r.ids, event.ID), append(r.texts, data.Message.Text)
		case err := <-r.failed:
			return err
		case <-late:
			return fmt.Errorf("got %d messages, want %d: %v", len(r.texts), count, r.texts)
		}
	}
	return nil
}

// streaming fires events before, during and after a lost connection, and resumes on other nodes.
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
			return step("receive them from a stream", func() (string, error) {
				err := r.waitFor(3)
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
			return step("restore it to another node",
				func() (string, error) { between.restore(s.node(1)); return s.node(1), nil })
		},
		func() error {
			return step("resume without loss", func() (string, error) {
				err := r.waitFor(6)
				return fmt.Sprintf("after %d drops", len(drops)), err
			})
		},
		func() error {
			return step("resume on a third node", func() (string, error) {
				between.cut()
				between.restore(s.node(2))
				if _, err := fire(7); err != nil {
					return "", err
				}
				return s.node(2), r.waitFor(7)
			})
		},
		func() error {
			return step("every event once, in order", func() (string, error) {
				if !slices.Equal(r.texts, want) || distinct(r.ids) != len(want) {
					return "", fmt.Errorf("got %v, want %v", r.texts, want)
				}
				return "", nil
			})
		},
		func() error {
			return step("continue from a saved cursor", func() (string, error) { return s.resume(ctx, account, r) })
		},
	)
}

// resume streams with another client, on another node, after the events that were read.
func (s *scenario) resume(ctx context.Context, account string, before *reader) (string, error) {
	other, err := stagedoor.New(stagedoor.Options{BaseURL: s.node(1)})
	if err != nil {
		return "", err
	}
	saved := before.stream.Cursor() // before the next event, which the first reader receives too
	if _, err := s.fire(ctx, account, 8); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options := stagedoor.StreamOptions{Since: saved, Events: []string{"message"}}
	for event, err := range other.Account(account).Stream(ctx, options).All() {
		if err != nil {
			return "", err
		}
		if slices.Contains(before.ids, event.ID) {
			return "", fmt.Errorf("%s arrived twice", event.ID)
		}
		return event.ID, nil
	}
	return "", nil
}

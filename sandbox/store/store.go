// Package store keeps the platform's state in one file, so that it survives a restart.
//
// It uses bbolt, an ordered map in a memory-mapped file, written in Go and used by etcd and Consul. The platform needs
// only prefix scans and atomic writes of several keys, so a SQL engine would add nothing useful.
//
// The writer batches commits: it puts everything that is queued into one transaction. Changes reach the kernel before
// they are confirmed, so a killed process loses no confirmed write. A power cut can, which is acceptable for a sandbox.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var root = []byte("state")

// maxGathered limits the number of commits in one transaction.
const maxGathered = 512

// Change is the new value of a key. A nil Value deletes the key.
type Change struct {
	Key, Value []byte
}

// Store is an open state file. Its methods are safe for concurrent use.
type Store struct {
	db     *bbolt.DB
	queue  chan commit
	closed chan struct{}

	mu   sync.RWMutex // read-locked while sending to queue
	over bool
}

// ErrClosed means that the store is closed.
var ErrClosed = errors.New("the state file is closed")

type commit struct {
	changes []Change
	wipe    bool
	done    func(error)
}

// Open opens the state file and creates it if it does not exist.
func Open(path string) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: 2 * time.Second, NoSync: true, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("the state file %s is in use by another sandboxd: stop that process, or use another file with -data", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the state file %s: %w", path, err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(root)
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the state file %s: %w", path, err), db.Close())
	}
	s := &Store{db: db, queue: make(chan commit, 1024), closed: make(chan struct{})}
	go s.write()
	return s, nil
}

// Close writes the queued commits and closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(s.queue)
	<-s.closed
	return errors.Join(s.db.Sync(), s.db.Close())
}

// Commit writes changes atomically and then calls done. Commits of one goroutine are written in order, and their done
// functions are called in order. done must be fast, because the writer waits for it.
func (s *Store) Commit(changes []Change, done func(error)) {
	s.put(commit{changes: changes, done: done})
}

func (s *Store) put(c commit) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.over {
		c.done(ErrClosed)
		return
	}
	s.queue <- c
}

// Wipe deletes all keys.
func (s *Store) Wipe() error {
	result := make(chan error, 1)
	s.put(commit{wipe: true, done: func(err error) { result <- err }})
	return <-result
}

// Get returns the value of a key, or nil.
func (s *Store) Get(key []byte) ([]byte, error) {
	var value []byte
	err := s.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(root).Get(key))
		return nil
	})
	return value, err
}

// Each calls visit with all keys that start with a prefix, in order. The slices are valid only during the call.
func (s *Store) Each(prefix []byte, visit func(key, value []byte) error) error {
	return s.From(prefix, prefix, visit)
}

// From is like Each, but starts at the key start.
func (s *Store) From(prefix, start []byte, visit func(key, value []byte) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(root).Cursor()
		for k, v := cursor.Seek(start); k != nil && bytes.HasPrefix(k, prefix); k, v = cursor.Next() {
			if err := visit(k, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) write() {
	defer close(s.closed)
	for first := range s.queue {
		batch := s.gather(first)
		err := s.db.Update(func(tx *bbolt.Tx) error {
			for _, c := range batch {
				if err := c.apply(tx); err != nil {
					return err
				}
			}
			return nil
		})
		for _, c := range batch {
			c.done(err)
		}
	}
}

// gather returns the first commit and those that are already queued. It does not wait for more.
func (s *Store) gather(first commit) []commit {
	batch := []commit{first}
	for len(batch) < maxGathered {
		select {
		case c, open := <-s.queue:
			if !open {
				return batch
			}
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

func (c commit) apply(tx *bbolt.Tx) error {
	if c.wipe {
		if err := tx.DeleteBucket(root); err != nil {
			return err
		}
		_, err := tx.CreateBucket(root)
		return err
	}
	bucket := tx.Bucket(root)
	for _, change := range c.changes {
		if change.Value == nil {
			if err := bucket.Delete(change.Key); err != nil {
				return err
			}
			continue
		}
		if err := bucket.Put(change.Key, change.Value); err != nil {
			return err
		}
	}
	return nil
}

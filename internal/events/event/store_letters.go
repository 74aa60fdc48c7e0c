package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event/internal/db"
)

// DeadLetter describes a record that could not be stored. Org, Source and Kind are empty if it could not be read.
type DeadLetter struct {
	ID     int64
	At     time.Time
	Org    id.Org
	Source string
	Kind   string
	// Reason is the error.
	Reason string
	// Requeued means that it will be stored again.
	Requeued bool
	// Size is the length of the record in bytes.
	Size int
}

// Letter is a record that a Batch buries, or that was requeued.
type Letter struct {
	// ID is 0 for a record that was not buried before.
	ID     int64
	Bucket int
	Org    id.Org
	Source string
	Kind   string
	Reason string
	Record []byte
}

// letterLife is how long dead letters are kept. They contain data of accounts.
const letterLife = 30 * 24 * time.Hour

// maxReason bounds the reason of a dead letter, in bytes.
const maxReason = 500

// bury writes the letters of a batch and deletes those that it stores.
func bury(ctx context.Context, q *db.Queries, b *Batch) error {
	for _, l := range b.Bury {
		reason := l.Reason[:min(len(l.Reason), maxReason)]
		var err error
		if l.ID != 0 {
			err = q.Rebury(ctx, db.ReburyParams{ID: l.ID, Reason: storable(reason)})
		} else {
			err = q.Bury(ctx, db.BuryParams{
				Bucket: int16(l.Bucket), OrgID: storable(string(l.Org)), Source: storable(l.Source), Kind: storable(l.Kind), Reason: storable(reason),
				Record: l.Record,
			})
		}
		if err != nil {
			return fmt.Errorf("write a dead letter: %w", err)
		}
	}
	if len(b.Letters) == 0 {
		return nil
	}
	if err := q.TakeLetters(ctx, b.Letters); err != nil {
		return fmt.Errorf("delete dead letters: %w", err)
	}
	return nil
}

// Requeued lists at most limit letters of buckets that an operator has requeued.
func (s *Store) Requeued(ctx context.Context, buckets []int16, limit int) ([]Letter, error) {
	rows, err := db.New(s.deps.DB).RequeuedLetters(ctx, db.RequeuedLettersParams{Buckets: buckets, MaxRows: int32(limit)})
	return postgres.Convert(rows, func(r db.RequeuedLettersRow) Letter { return Letter{ID: r.ID, Record: r.Record} }), err
}

// DeadLetters lists at most limit dead letters with a lower id than before, newest first.
func (s *Store) DeadLetters(ctx context.Context, before int64, limit int) ([]DeadLetter, error) {
	rows, err := db.New(s.deps.DB).DeadLetters(ctx, db.DeadLettersParams{Before: before, MaxRows: int32(limit)})
	return postgres.Convert(rows, deadLetter), err
}

func deadLetter(r db.DeadLettersRow) DeadLetter {
	return DeadLetter{r.ID, r.At, id.Org(r.OrgID), r.Source, r.Kind, r.Reason, r.Requeued, int(r.Size)}
}

// RequeueLetter makes the holder of a dead letter's bucket store it again, within seconds. It fails with
// dead-letter-not-found.
func (s *Store) RequeueLetter(ctx context.Context, tx postgres.Tx, letter int64) (DeadLetter, error) {
	row, err := db.New(tx).RequeueLetter(ctx, letter)
	return deadLetter(db.DeadLettersRow(row)), letterError(err)
}

// DeleteLetter deletes a dead letter. It fails with dead-letter-not-found.
func (s *Store) DeleteLetter(ctx context.Context, tx postgres.Tx, letter int64) (DeadLetter, error) {
	row, err := db.New(tx).DeleteLetter(ctx, letter)
	return deadLetter(db.DeadLettersRow(row)), letterError(err)
}

func letterError(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return problem.LetterNotFound.New("There is no dead letter with this id.")
	}
	return err
}

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
)

// Result is the result of a job as far as it is written: compressed lines of JSON. It is an io.ReadSeeker, and is used by
// one goroutine. What came from accounts that have been deleted is missing.
type Result struct {
	// Tag changes when the result does.
	Tag string
	// Modified is when the job was over; zero before.
	Modified time.Time

	ctx   context.Context //nolint:containedctx // Read has no parameter for it
	jobs  *Jobs
	org   id.Org
	index []located
	size  int64
	at    int64
	// loaded is the number of the block in text; -1 for none.
	loaded int
	text   []byte
}

// located is a block and where it is.
type located struct {
	block
	object string
	number int
	// from is its position in the object, start that of its compressed lines in the result.
	from, start int64
}

// Result opens the result of a job. It returns a problem if there is none yet or any more. Reads use ctx.
func (s *Jobs) Result(ctx context.Context, j *Job) (*Result, error) {
	switch {
	case j.State == Queued:
		return nil, problem.JobNotStarted.New("The job waits for a worker.").After(1)
	case j.ExpiredAt != nil:
		return nil, expired()
	}
	rows, err := db.New(s.deps.DB).Parts(ctx, db.PartsParams{OrgID: j.Org, JobID: j.ID})
	if err != nil {
		return nil, err
	}
	r := &Result{ctx: ctx, jobs: s, org: j.Org, loaded: -1}
	if j.FinishedAt != nil {
		r.Modified = *j.FinishedAt
	}
	readable := s.newReadable(j.Org)
	for _, row := range rows {
		var blocks []block
		if err := json.Unmarshal(row.Blocks, &blocks); err != nil {
			return nil, fmt.Errorf("read the blocks of %s: %w", row.Object, err)
		}
		if err := readable.load(ctx, blocks); err != nil {
			return nil, err
		}
		from := int64(0)
		for i, b := range blocks {
			if readable.holders[b.Holder] {
				r.index = append(r.index, located{b, row.Object, i, from, r.size})
				r.size += b.Size
			}
			from += b.Sealed
		}
	}
	if r.size == 0 {
		r.text, r.size = emptyFile, int64(len(emptyFile))
	}
	r.Tag = fmt.Sprintf(`"%s-%d-%d"`, j.ID, len(r.index), r.size)
	return r, nil
}

// emptyFile is a result without lines.
var emptyFile = func() []byte {
	packed, err := compress(nil)
	if err != nil {
		panic(err) // it is written to memory
	}
	return packed
}()

func expired() error {
	return problem.ResultExpired.New("Results are kept for 7 days after the job is over.")
}

// readable remembers which holders have a key.
type readable struct {
	jobs    *Jobs
	org     id.Org
	holders map[string]bool
}

func (s *Jobs) newReadable(org id.Org) readable { return readable{s, org, map[string]bool{}} }

func (r readable) load(ctx context.Context, blocks []block) error {
	var unknown []string
	for _, b := range blocks {
		if _, known := r.holders[b.Holder]; !known {
			unknown = append(unknown, b.Holder)
		}
	}
	if err := r.jobs.deps.Seal.Warm(ctx, r.org, unknown); err != nil {
		return err
	}
	for _, holder := range unknown {
		has, err := r.jobs.deps.Seal.HasKey(ctx, r.org, holder)
		if err != nil {
			return fmt.Errorf("read the key of %s: %w", holder, err)
		}
		r.holders[holder] = has
	}
	return nil
}

// Size returns the size of the result in bytes.
func (r *Result) Size() int64 { return r.size }

// Seek implements io.Seeker.
func (r *Result) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the begin of a result")
	}
	r.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (r *Result) Read(into []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(r.index) == 0 {
		n := copy(into, r.text[r.at:])
		r.at += int64(n)
		return n, nil
	}
	i := sort.Search(len(r.index), func(i int) bool { return r.index[i].start+r.index[i].Size > r.at })
	if i != r.loaded {
		if err := r.load(i); err != nil {
			return 0, err
		}
	}
	n := copy(into, r.text[r.at-r.index[i].start:])
	r.at += int64(n)
	return n, nil
}

// load reads and opens a block.
func (r *Result) load(i int) error {
	b := &r.index[i]
	sealed, err := r.jobs.deps.Objects.Read(r.ctx, r.org, b.object, b.from, b.Sealed)
	if errors.Is(err, objects.ErrNotFound) {
		return expired() // it was deleted after the index was read
	}
	if err != nil {
		return err
	}
	text, err := r.jobs.deps.Seal.OpenBytes(r.ctx, blockAddress(r.org, b.Holder, b.object, b.number), sealed)
	if err == nil && int64(len(text)) != b.Size {
		err = errors.New("its size is wrong")
	}
	if err != nil {
		return fmt.Errorf("open a block of %s: %w", b.object, err)
	}
	r.loaded, r.text = i, text
	return nil
}

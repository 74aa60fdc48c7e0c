package job

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// input is where the input of a job is: an object, sealed with the key of the organisation. It is the caller's and did not
// come from an account. It is deleted when the job is over.
type input struct {
	Object string `json:"object"`
	Size   int64  `json:"size"`
	// SHA256 is the hash of the text, by which the same upload is recognised.
	SHA256 string `json:"sha256"`
}

// maxInput bounds the text of an input.
const maxInput = 256 << 20

func inputFolder(job id.Job) string { return folderName(job) + "/input" }

// storeInput stores the input of a job and returns where it is, for the row; nil for none.
func (s *Jobs) storeInput(ctx context.Context, owner id.Org, job id.Job, text []byte) (json.RawMessage, error) {
	if text == nil {
		return nil, nil
	}
	sum := sha256.Sum256(text)
	in := input{Object: inputFolder(job) + "/" + hex.EncodeToString(sum[:8]), SHA256: hex.EncodeToString(sum[:])}
	packed, err := compress(text)
	if err != nil {
		return nil, err
	}
	if err := s.deps.Seal.Prepare(ctx, owner, string(owner)); err != nil {
		return nil, fmt.Errorf("prepare the key of %s: %w", owner, err)
	}
	sealed, err := s.deps.Seal.SealBytes(ctx, blockAddress(owner, string(owner), in.Object, 0), packed)
	if err != nil {
		return nil, fmt.Errorf("seal the input of job %s: %w", job, err)
	}
	in.Size = int64(len(sealed))
	if err := s.deps.Objects.Put(ctx, owner, in.Object, sealed); err != nil {
		return nil, err
	}
	return json.Marshal(in)
}

// Input reads the input of the job.
func (r *Run) Input(ctx context.Context) ([]byte, error) {
	if r.input == nil {
		return nil, nil
	}
	sealed, err := r.jobs.deps.Objects.Read(ctx, r.Org, r.input.Object, 0, r.input.Size)
	if err != nil {
		return nil, err
	}
	packed, err := r.jobs.deps.Seal.OpenBytes(ctx, blockAddress(r.Org, string(r.Org), r.input.Object, 0), sealed)
	if err != nil {
		return nil, fmt.Errorf("open the input of job %s: %w", r.ID, err)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the input of job %s: %w", r.ID, err)
	}
	return io.ReadAll(io.LimitReader(unpack, maxInput))
}

// deleteInput deletes the input of a job that is over. If it fails, the input is deleted with the result.
func (s *Jobs) deleteInput(ctx context.Context, j *Job) {
	if j.input == nil || s.deps.Objects == nil {
		return
	}
	if err := s.deps.Objects.Delete(ctx, j.Org, inputFolder(j.ID)); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot delete the input of a job", slog.String(logkey.JobID, string(j.ID)), slog.Any(logkey.Error, err))
	}
}

// Give stores the input that a job waits for, and enqueues the job. Giving the same input again changes nothing.
func (s *Jobs) Give(ctx context.Context, caller *apikey.Principal, by audit.By, job string, d Draft) (Job, error) {
	owner := caller.Org.ID
	j, err := s.Get(ctx, owner, job)
	if err != nil {
		return Job{}, err
	}
	params, err := json.Marshal(d.Params)
	if err != nil {
		return Job{}, fmt.Errorf("encode the parameters of a job: %w", err)
	}
	before := j.Params
	j.Params = params
	if err := s.CheckRights(ctx, caller, &j); err != nil {
		return Job{}, err
	}
	j.Params = before
	sum := sha256.Sum256(d.Input)
	switch {
	case j.input != nil && j.input.SHA256 == hex.EncodeToString(sum[:]):
		return j, nil
	case !j.Awaits || j.State != Queued:
		return Job{}, problem.ValidationFailed.New("The job does not wait for items: it has others, or is over. Start another one.").
			At("path/id", "state", "must be a job that was started without items")
	}
	given, err := s.storeInput(ctx, owner, j.ID, d.Input)
	if err != nil {
		return Job{}, err
	}
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		n, err := db.New(tx).Give(ctx, db.GiveParams{OrgID: owner, ID: j.ID, Params: params, Input: given, WakeAt: now.Add(startWithin)})
		if err != nil || n == 0 {
			return err // another upload was first, or the job was cancelled
		}
		if err := s.enqueue(ctx, tx, owner, j.ID); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(j.ID), nil)
	})
	if err != nil {
		return Job{}, err
	}
	return s.Get(ctx, owner, job)
}

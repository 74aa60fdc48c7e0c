package job

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// lines are lines of a result that are not saved yet, by the holder of the key that will seal them.
type lines struct {
	holders []string
	texts   map[string]*bytes.Buffer
	size    int
}

func newLines() lines { return lines{texts: map[string]*bytes.Buffer{}} }

func (l *lines) add(holder string, text []byte) {
	b := l.texts[holder]
	if b == nil {
		b = &bytes.Buffer{}
		l.texts[holder] = b
		l.holders = append(l.holders, holder)
	}
	b.Write(text)
	b.WriteByte('\n')
	l.size += len(text) + 1
}

// block is a piece of a part that one key seals. It is compressed on its own, and pieces that follow each other are a valid
// file.
type block struct {
	Holder string `json:"holder"`
	// Size is that of the compressed lines, Sealed that of the block in the object.
	Size   int64 `json:"size"`
	Sealed int64 `json:"sealed"`
}

// folderName returns the folder with the objects of a job.
func folderName(job id.Job) string { return "jobs/" + string(job) }

// partName returns the name of an object. A worker whose lease has ended cannot replace the object of another one, because
// the name has the epoch.
func partName(job id.Job, part int, epoch int64) string {
	return fmt.Sprintf("%s/%d-%d", folderName(job), part, epoch)
}

// blockAddress binds a block to its place.
func blockAddress(org id.Org, holder, object string, index int) seal.Address {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", object, index))
	return seal.Address{
		Org: org, Holder: holder, Purpose: seal.PurposeJobResult, Version: int64(binary.BigEndian.Uint64(sum[:8]) & math.MaxInt64),
	}
}

// sealLines returns lines as the body of an object, and its blocks. It fails with seal.ErrShredded if an account was
// deleted after its lines were read.
func (s *Jobs) sealLines(ctx context.Context, org id.Org, object string, l *lines) (body []byte, blocks []block, err error) {
	if err := s.deps.Seal.Warm(ctx, org, l.holders); err != nil {
		return nil, nil, err
	}
	for i, holder := range l.holders {
		packed, err := compress(l.texts[holder].Bytes())
		if err != nil {
			return nil, nil, err
		}
		sealed, err := s.deps.Seal.SealBytes(ctx, blockAddress(org, holder, object, i), packed)
		if err != nil {
			return nil, nil, fmt.Errorf("seal a result of %s: %w", holder, err)
		}
		body = append(body, sealed...)
		blocks = append(blocks, block{holder, int64(len(packed)), int64(len(sealed))})
	}
	return body, blocks, nil
}

func compress(text []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress a result: %w", err)
	}
	return packed.Bytes(), nil
}

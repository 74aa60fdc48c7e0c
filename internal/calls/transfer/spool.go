package transfer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// spool keeps files of unknown size on the node's disk while they are uploaded. Platforms require the size before the
// first byte.
type spool struct {
	limit int64
	used  atomic.Int64
}

// spooled is a file in the spool. It has no name in the file system and is encrypted with a key that only this
// process has, so that nothing of it outlives the upload or the process.
type spooled struct {
	spool *spool
	file  *os.File
	key   [32]byte
	size  int64
}

// store reads a file to its end and writes it to disk. largest bounds its size; a negative value means no bound.
func (s *spool) store(from io.Reader, largest int) (_ *spooled, err error) {
	file, err := os.CreateTemp("", "stagedoor-upload-")
	if err != nil {
		return nil, fmt.Errorf("spool an upload: %w", err)
	}
	out := &spooled{spool: s, file: file}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("spool an upload: %w", err)
	}
	rand.Read(out.key[:]) // never fails; see its documentation
	stream, err := out.cipher()
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		out.size += int64(n)
		switch used := s.used.Add(int64(n)); {
		case largest >= 0 && out.size > int64(largest):
			return nil, tooLarge(largest)
		case used > s.limit:
			return nil, problem.ServiceUnavailable.New("This server has no space left for files of unknown size. " +
				"Send the field args with the size before the field file, or try again later.").After(retryAfter)
		}
		stream.XORKeyStream(buffer[:n], buffer[:n])
		if _, failed := file.Write(buffer[:n]); failed != nil {
			return nil, fmt.Errorf("spool an upload: %w", failed)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, brokenForm(err)
		}
	}
}

// open returns a reader of the decrypted file from its first byte.
func (f *spooled) open() (io.Reader, error) {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read a spooled upload: %w", err)
	}
	stream, err := f.cipher()
	return cipher.StreamReader{S: stream, R: f.file}, err
}

// cipher returns the key stream. Each key is used for one file only, so the counter may start at zero.
func (f *spooled) cipher() (cipher.Stream, error) {
	block, err := aes.NewCipher(f.key[:])
	if err != nil {
		return nil, fmt.Errorf("encrypt a spooled upload: %w", err)
	}
	return cipher.NewCTR(block, make([]byte, aes.BlockSize)), nil
}

// close deletes the file and frees its space. It may be called twice.
func (f *spooled) close() {
	if f.file.Close() == nil { // fails only if it was closed before
		f.spool.used.Add(-f.size)
	}
}

package objects

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/uuid"
)

// folder keeps objects as files. It opens the folder for every operation, so that one that is mounted later is found.
// The folder itself is never created: if it is missing, what should be mounted there is not.
type folder struct{ path string }

// unfinished begins the name of a file that is still being written. No object has such a name.
const unfinished = ".new-"

func (f folder) put(_ context.Context, name string, body []byte) (err error) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := path.Dir(name)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft := dir + "/" + unfinished + uuid.NewString()
	if err := writeFile(root, draft, body); err != nil {
		_ = root.Remove(draft)
		return err
	}
	if err := root.Rename(draft, name); err != nil {
		_ = root.Remove(draft)
		return err
	}
	return syncFolder(root, dir)
}

func writeFile(root *os.Root, name string, body []byte) (err error) {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(body); err != nil {
		return err
	}
	return file.Sync()
}

// syncFolder makes the names of files in a folder durable.
func syncFolder(root *os.Root, dir string) (err error) {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

func (f folder) read(_ context.Context, name string, offset, length int64) ([]byte, error) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, offset, length))
}

func (f folder) list(ctx context.Context, at string, each func([]Object) error) error {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	var found []Object
	err = fs.WalkDir(root.FS(), strings.TrimSuffix(at, "/"), func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was stored yet, or it is being deleted
		case err != nil:
			return err
		case d.IsDir() || strings.HasPrefix(d.Name(), unfinished):
			return ctx.Err()
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			found = append(found, Object{name, info.Size()})
		}
		return err
	})
	if err != nil {
		return err
	}
	return each(found)
}

func (f folder) remove(_ context.Context, at string) error {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(strings.TrimSuffix(at, "/"))
}

func (f folder) check(context.Context) error {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	return root.Close()
}

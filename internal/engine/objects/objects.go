// Package objects stores files that are too large for the database: in a bucket of an object store with the S3 API, or
// in a folder that all nodes share. Every name begins with the organisation that the object belongs to, so that all of
// an organisation can be deleted.
//
// It does not encrypt: callers seal what they store (package vault/seal). Objects never change once they are written;
// one that is written again under its name replaces the other as a whole. Start with Open.
package objects

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// ErrNotFound means that there is no object with the name.
var ErrNotFound = errors.New("there is no such object")

// Deadlines of single requests to the store.
const (
	putTimeout  = time.Minute
	readTimeout = 20 * time.Second
	listTimeout = 30 * time.Second
)

// Config says where objects are.
type Config struct {
	// Location is the absolute path of a folder, or s3://bucket/prefix?region=…&endpoint=https://…&path-style=true, of
	// which all but the bucket may be missing.
	Location string
	// AccessKey and SecretKey are the credentials for S3. Without them, they come from where AWS's tools find them:
	// variables, files, the role of the machine.
	AccessKey, SecretKey secret.String
	// CAFile has the certificates of the authorities that sign the certificate of the endpoint. Default: those of the
	// system.
	CAFile string
}

// Object is an object in a list.
type Object struct {
	// Name is the name without the organisation.
	Name string
	Size int64
}

// backend is a place for objects. Its names include the organisation.
type backend interface {
	put(ctx context.Context, name string, body []byte) error
	// read returns up to length bytes from offset.
	read(ctx context.Context, name string, offset, length int64) ([]byte, error)
	// list calls each for pages of the objects below a folder. It may delete them.
	list(ctx context.Context, folder string, each func([]Object) error) error
	remove(ctx context.Context, folder string) error
	check(ctx context.Context) error
}

// Store stores objects. It is safe for concurrent use.
type Store struct{ backend backend }

// Open returns the store at a location. It does not contact it, so a node can start while it is unavailable.
func Open(ctx context.Context, c Config) (*Store, error) {
	l, err := parseLocation(c.Location)
	if err != nil {
		return nil, err
	}
	if l.folder != "" {
		return &Store{folder{l.folder}}, nil
	}
	b, err := openBucket(ctx, l, c)
	if err != nil {
		return nil, err
	}
	return &Store{b}, nil
}

// Check reports what is wrong with the settings; nil for none.
func (c Config) Check() error {
	l, err := parseLocation(c.Location)
	switch {
	case err != nil:
		return err
	case c.AccessKey.Empty() != c.SecretKey.Empty():
		return errors.New("the access key and the secret key belong together: set both, or none")
	case l.folder != "" && (!c.AccessKey.Empty() || c.CAFile != ""):
		return errors.New("keys and certificates are for s3://, not for a folder: remove them")
	}
	return nil
}

// names matches the name of an object: folders, separated by slashes. None begins with a dot.
var names = regexp.MustCompile(`^[a-z0-9_-][a-z0-9_.-]*(/[a-z0-9_-][a-z0-9_.-]*)*$`)

const maxName = 400

// folderOf returns the folder of an organisation, with a slash at its end.
func folderOf(org id.Org) (string, error) {
	if _, err := id.Parse[id.Org](string(org)); err != nil {
		return "", fmt.Errorf("organisation of an object: %w", err)
	}
	return "org/" + string(org) + "/", nil
}

func keyOf(org id.Org, name string) (string, error) {
	at, err := folderOf(org)
	if err == nil && (len(name) > maxName || !names.MatchString(name)) {
		err = fmt.Errorf("%q cannot be the name of an object", name)
	}
	return at + name, err
}

// Put writes an object. After it has returned nil, the object is durable.
func (s *Store) Put(ctx context.Context, org id.Org, name string, body []byte) error {
	key, err := keyOf(org, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := s.backend.put(ctx, key, body); err != nil {
		return fmt.Errorf("write object %s: %w", key, err)
	}
	return nil
}

// Read returns length bytes of an object from an offset. It fails with ErrNotFound if there is no such object, and if the
// object is shorter.
func (s *Store) Read(ctx context.Context, org id.Org, name string, offset, length int64) ([]byte, error) {
	key, err := keyOf(org, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := s.backend.read(ctx, key, offset, length)
	if err == nil && int64(len(body)) != length {
		err = fmt.Errorf("it ends after %d of %d bytes", len(body), length)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", key, err)
	}
	return body, nil
}

// List returns the objects of an organisation in a folder and the folders below it; an empty folder means all.
func (s *Store) List(ctx context.Context, org id.Org, folder string) ([]Object, error) {
	of, at, err := below(org, folder)
	if err != nil {
		return nil, err
	}
	var list []Object
	err = s.backend.list(ctx, at, func(page []Object) error {
		for _, o := range page {
			o.Name = strings.TrimPrefix(o.Name, of)
			list = append(list, o)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list objects of %s: %w", at, err)
	}
	return list, nil
}

// Delete deletes the objects of an organisation in a folder and the folders below it; an empty folder means all. It can
// be repeated.
func (s *Store) Delete(ctx context.Context, org id.Org, folder string) error {
	_, at, err := below(org, folder)
	if err == nil {
		err = s.backend.remove(ctx, at)
	}
	if err != nil {
		return fmt.Errorf("delete objects of %s: %w", at, err)
	}
	return nil
}

// below returns the folder of an organisation, and a folder in it. Both end with a slash.
func below(org id.Org, folder string) (of, at string, err error) {
	if of, err = folderOf(org); err != nil || folder == "" {
		return of, of, err
	}
	if at, err = keyOf(org, folder); err != nil {
		return "", "", err
	}
	return of, at + "/", nil
}

// Check reports whether the store can be reached.
func (s *Store) Check(ctx context.Context) error {
	if err := s.backend.check(ctx); err != nil {
		return fmt.Errorf("reach the object store: %w", err)
	}
	return nil
}

package objects_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// stores are the kinds of stores, which all behave in the same way.
func stores(t *testing.T) map[string]objects.Config {
	t.Helper()
	_, plain := testenv.S3(t, nil)
	prefixed := plain
	prefixed.Location = strings.Replace(plain.Location, "s3://objects?", "s3://objects/shared/stagedoor?", 1)
	_, secure := testenv.S3(t, testenv.NewAuthority(t))
	return map[string]objects.Config{"folder": testenv.Folder(t), "S3": plain, "S3 with a prefix": prefixed, "S3 with TLS": secure}
}

func open(t *testing.T, c objects.Config) *objects.Store {
	t.Helper()
	must.OK(t, c.Check())
	s, err := objects.Open(t.Context(), c)
	must.OK(t, err)
	return s
}

func TestEveryStoreKeepsListsAndDeletes(t *testing.T) {
	t.Parallel()
	for name, config := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := t.Context(), open(t, config)
			must.OK(t, s.Check(ctx))
			mine, other := id.New[id.Org](), id.New[id.Org]()
			if list, err := s.List(ctx, mine, ""); err != nil || len(list) != 0 {
				t.Fatalf("an organisation without objects has %v, %v", list, err)
			}
			must.OK(t, s.Delete(ctx, mine, "jobs/none"))
			large := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
			must.OK(t, s.Put(ctx, mine, "jobs/one/1", []byte("first")))
			must.OK(t, s.Put(ctx, mine, "jobs/one/1", []byte("replaced")))
			must.OK(t, s.Put(ctx, mine, "jobs/one/2", large))
			must.OK(t, s.Put(ctx, mine, "jobs/one-more/1", []byte("kept")))
			must.OK(t, s.Put(ctx, other, "jobs/one/1", []byte("of another")))

			for _, read := range []struct {
				name         string
				offset, size int64
				want         string
			}{
				{"jobs/one/1", 0, 8, "replaced"}, {"jobs/one/1", 2, 3, "pla"}, {"jobs/one/1", 8, 0, ""},
				{"jobs/one/2", 8<<20 - 4, 4, "cdef"}, {"jobs/one/2", 5 << 20, 16, "0123456789abcdef"},
			} {
				got, err := s.Read(ctx, mine, read.name, read.offset, read.size)
				if err != nil || string(got) != read.want {
					t.Errorf("%s from %d: %q, %v", read.name, read.offset, got, err)
				}
			}
			if whole, err := s.Read(ctx, mine, "jobs/one/2", 0, 8<<20); err != nil || !bytes.Equal(whole, large) {
				t.Errorf("a large object comes back as %d bytes, %v", len(whole), err)
			}
			if _, err := s.Read(ctx, mine, "jobs/one/1", 4, 10); err == nil {
				t.Error("more than there is was read")
			}
			if _, err := s.Read(ctx, mine, "jobs/one/3", 0, 1); !errors.Is(err, objects.ErrNotFound) {
				t.Errorf("an object that does not exist: %v", err)
			}

			if got := list(t, s, mine, ""); !slices.Equal(got, []string{"jobs/one-more/1", "jobs/one/1", "jobs/one/2"}) {
				t.Errorf("all objects: %v", got)
			}
			must.OK(t, s.Delete(ctx, mine, "jobs/one"))
			if got := list(t, s, mine, "jobs"); !slices.Equal(got, []string{"jobs/one-more/1"}) {
				t.Errorf("after a folder was deleted: %v", got)
			}
			must.OK(t, s.Delete(ctx, mine, ""))
			must.OK(t, s.Delete(ctx, mine, ""))
			if got := list(t, s, mine, ""); len(got) != 0 {
				t.Errorf("after all were deleted: %v", got)
			}
			if got := list(t, s, other, ""); !slices.Equal(got, []string{"jobs/one/1"}) {
				t.Errorf("another organisation has %v", got)
			}
		})
	}
}

func list(t *testing.T, s *objects.Store, org id.Org, folder string) []string {
	t.Helper()
	found, err := s.List(t.Context(), org, folder)
	must.OK(t, err)
	names := make([]string, len(found))
	for i, o := range found {
		names[i] = o.Name
	}
	slices.Sort(names)
	return names
}

func TestNamesStayInTheirOrganisation(t *testing.T) {
	t.Parallel()
	ctx, config := t.Context(), testenv.Folder(t)
	s, org := open(t, config), id.New[id.Org]()
	for _, name := range []string{"", "/a", "a/", "../a", "a/../b", "a//b", ".hidden", "A", "a b", strings.Repeat("a", 401)} {
		if err := s.Put(ctx, org, name, nil); err == nil {
			t.Errorf("%q is the name of an object", name)
		}
	}
	for _, wrong := range []id.Org{"", "..", "org_1/../org_2"} {
		if s.Put(ctx, wrong, "a", nil) == nil || s.Delete(ctx, wrong, "") == nil {
			t.Errorf("%q is an organisation", wrong)
		}
	}
	// A link that leads out of the folder is not followed.
	outside := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(outside, "a"), []byte("secret"), 0o600))
	must.OK(t, os.MkdirAll(filepath.Join(config.Location, "org"), 0o700))
	must.OK(t, os.Symlink(outside, filepath.Join(config.Location, "org", string(org))))
	if got, err := s.Read(ctx, org, "a", 0, 6); err == nil {
		t.Errorf("a file outside of the folder was read: %q", got)
	}
}

func TestUnfinishedFilesAreNoObjects(t *testing.T) {
	t.Parallel()
	ctx, config := t.Context(), testenv.Folder(t)
	s, org := open(t, config), id.New[id.Org]()
	must.OK(t, s.Put(ctx, org, "jobs/a", []byte("a")))
	must.OK(t, os.WriteFile(filepath.Join(config.Location, "org", string(org), "jobs", ".new-1"), []byte("half"), 0o600))
	if got := list(t, s, org, ""); !slices.Equal(got, []string{"jobs/a"}) {
		t.Errorf("the list has %v", got)
	}
	must.OK(t, s.Delete(ctx, org, ""))
	if _, err := os.Stat(filepath.Join(config.Location, "org", string(org))); !os.IsNotExist(err) {
		t.Errorf("the organisation's folder is still there: %v", err)
	}
}

// A folder that is not mounted, a server that is down, and wrong credentials are errors, and nothing is created.
func TestAnUnreachableStoreIsAnError(t *testing.T) {
	t.Parallel()
	missing := objects.Config{Location: filepath.Join(t.TempDir(), "mount")}
	down := objects.Config{
		Location:  "s3://objects?path-style=true&endpoint=http://" + testenv.FreePort(t),
		AccessKey: secret.New("a"), SecretKey: secret.New("b"),
	}
	_, wrong := testenv.S3(t, nil)
	wrong.SecretKey = secret.New("another")
	for name, config := range map[string]objects.Config{"missing folder": missing, "server down": down, "wrong key": wrong} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s, org := t.Context(), open(t, config), id.New[id.Org]()
			_, readErr := s.Read(ctx, org, "a", 0, 1)
			_, listErr := s.List(ctx, org, "")
			for call, err := range map[string]error{
				"check": s.Check(ctx), "put": s.Put(ctx, org, "a", nil), "read": readErr, "list": listErr, "delete": s.Delete(ctx, org, ""),
			} {
				if err == nil || errors.Is(err, objects.ErrNotFound) {
					t.Errorf("%s: %v", call, err)
				} else if strings.Contains(err.Error(), "another") {
					t.Errorf("%s has the secret: %v", call, err)
				}
			}
		})
	}
	if _, err := os.Stat(missing.Location); !os.IsNotExist(err) {
		t.Errorf("the folder was created: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	key := secret.New("k")
	for _, c := range []objects.Config{
		{Location: "/mnt/objects"}, {Location: "s3://bucket-1"}, {Location: "s3://bucket/a/b?region=eu-west-1", AccessKey: key, SecretKey: key},
		{Location: "s3://bucket?endpoint=https://minio.internal:9000&path-style=true", CAFile: "/ca.pem"},
		{Location: "s3://bucket?endpoint=http://127.0.0.1:9000"},
	} {
		if err := c.Check(); err != nil {
			t.Errorf("%s is refused: %v", c.Location, err)
		}
	}
	for _, c := range []objects.Config{
		{Location: ""}, {Location: "objects"}, {Location: "./objects"}, {Location: "s3://"}, {Location: "s3://B"}, {Location: "s3://user@bucket"},
		{Location: "s3://bucket?endpoint=http://minio.internal:9000"}, {Location: "s3://bucket?endpoint=https://host/path"},
		{Location: "s3://bucket?path-style=maybe"}, {Location: "s3://bucket?regoin=eu-west-1"}, {Location: "s3://bucket/../other"},
		{Location: "https://bucket"}, {Location: "s3://bucket", AccessKey: key}, {Location: "s3://bucket", SecretKey: key},
		{Location: "/mnt", AccessKey: key, SecretKey: key}, {Location: "/mnt", CAFile: "/ca.pem"},
	} {
		if c.Check() == nil {
			t.Errorf("%q is accepted", c.Location)
		}
	}
}

package catalog_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// sandboxWithEdit returns the sandbox's manifest with one text of one file replaced.
func sandboxWithEdit(t *testing.T, file, from, to string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	root := os.DirFS("manifests/sandbox")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	})
	must.OK(t, err)
	text := string(files[file].Data)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q", file, from)
	}
	files[file].Data = []byte(strings.Replace(text, from, to, 1))
	return files
}

// The methods, arguments and fields that the section files names must exist and be suitable.
func TestFilesSectionIsChecked(t *testing.T) {
	t.Parallel()
	const up, vault, uploads = "upstream.yaml", "resources/vault.yaml", "resources/uploads.yaml"
	for name, c := range map[string]struct{ file, from, to, want string }{
		"nowhere":             {up, "at: [/media/, /upload/]", "at: []", "files.at"},
		"everywhere":          {up, "at: [/media/, /upload/]", "at: [/]", "files.at.0"},
		"no folder":           {up, "at: [/media/, /upload/]", "at: [/media]", "files.at.0"},
		"dots":                {up, "at: [/media/, /upload/]", "at: [/media/../]", "files.at.0"},
		"user in an address":  {up, "at: [/media/, /upload/]", `at: ["https://a@b.example/"]`, "files.at.0"},
		"no method":           {up, "method: vault.getDownloadUrl", "method: vault.download", "files.download: there is no method vault.download"},
		"write":               {up, "method: vault.getDownloadUrl, id: mediaId, quality: quality", "method: vault.delete, id: mediaIds", "must be a read"},
		"no argument":         {up, "id: mediaId,", "id: media,", "vault.getDownloadUrl has no argument media"},
		"argument not given":  {up, "number: partNumber, url: url", "number: uploadId, url: url", "uploads.getPartUrl requires partNumber, which files does not provide"},
		"no field":            {up, "quality: quality, url: url}", "quality: quality, url: link}", "vault.getDownloadUrl returns no link"},
		"no role":             {vault, "role: download", "description: an address", "returns url, which lacks role: download"},
		"role of a part":      {uploads, "role: upload", "role: download", "lacks role: upload"},
		"may be null":         {up, "id: id, partSize: partSize", "id: mediaId, partSize: partSize", "returns mediaId, which may be null"},
		"parts without names": {up, "parts: parts, number: number, etag: etag", "parts: parts", "files.upload.finish"},
		"unknown key":         {up, "cookies: false", "cookie: false", "files: unknown key \"cookie\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(sandboxWithEdit(t, c.file, c.from, c.to))
			if _, ok := errors.AsType[catalog.Faults](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
		})
	}
}

// The section files, and the methods in it, are optional.
func TestFilesSectionIsOptional(t *testing.T) {
	t.Parallel()
	if small(t).Files != nil {
		t.Error("a manifest without the section has files")
	}
	files := sandboxWithEdit(t, "upstream.yaml", "at: [/media/, /upload/]", `at: ["https://files.platform.example/", "https://cdn.platform.example:8443/public/"]`)
	head, _, _ := strings.Cut(string(files["upstream.yaml"].Data), "  download: {")
	files["upstream.yaml"].Data = []byte(head)
	c, err := catalog.Load(files)
	must.OK(t, err)
	if c.Files == nil || len(c.Files.At) != 2 || c.Files.Download != nil || c.Files.Upload != nil {
		t.Errorf("%+v", c.Files)
	}
}

func sandboxFiles(t *testing.T) *catalog.Files {
	t.Helper()
	c, err := catalog.Sandbox()
	must.OK(t, err)
	return c.Files
}

// File arguments use the names from the manifest and are validated by its schemas.
func TestFileArguments(t *testing.T) {
	t.Parallel()
	f := sandboxFiles(t)
	for name, c := range map[string]struct {
		make func() (catalog.Args, error)
		want string
	}{
		"download":        {func() (catalog.Args, error) { return f.Download.Args("12", "") }, `{"mediaId":"12","quality":"full"}`},
		"quality":         {func() (catalog.Args, error) { return f.Download.Args("12", "thumb") }, `{"mediaId":"12","quality":"thumb"}`},
		"another quality": {func() (catalog.Args, error) { return f.Download.Args("12", "best") }, "query/quality enum"},
		"no id":           {func() (catalog.Args, error) { return f.Download.Args("../12", "") }, "query/mediaId format"},
		"begin": {func() (catalog.Args, error) {
			return f.Upload.BeginArgs(catalog.FileDraft{Name: "a.png", Type: "image/png", Size: 5_000_000_000, SHA256: "ab"})
		}, `{"fileName":"a.png","size":5000000000,"mimeType":"image/png","sha256":"ab"}`},
		"no name": {func() (catalog.Args, error) { return f.Upload.BeginArgs(catalog.FileDraft{Type: "image/png", Size: 1}) }, "/fileName length"},
		"part":    {func() (catalog.Args, error) { return f.Upload.PartArgs("7", 3) }, `{"uploadId":"7","partNumber":3}`},
		"finish": {func() (catalog.Args, error) {
			return f.Upload.FinishArgs("7", []catalog.FilePart{{Number: 1, ETag: "x"}, {Number: 2}})
		}, `{"uploadId":"7","parts":[{"number":1,"etag":"x"},{"number":2}]}`},
	} {
		args, err := c.make()
		got := string(args.JSON())
		if err != nil {
			got = strings.Join(fieldsOf(t, err), ", ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// File results are read by the names from the manifest. A missing field means that the platform has changed.
func TestFileResults(t *testing.T) {
	t.Parallel()
	f := sandboxFiles(t)
	if address, err := f.Download.URL([]byte(`{"url":"http://x/media/1","expiresAt":"…"}`)); err != nil || address != "http://x/media/1" {
		t.Errorf("%q, %v", address, err)
	}
	id, size, err := f.Upload.Begun([]byte(`{"id":"9","partSize":5242880,"state":"open"}`))
	if err != nil || id != "9" || size != 5<<20 {
		t.Errorf("%q, %d, %v", id, size, err)
	}
	address, header, err := f.Upload.Target([]byte(`{"url":"http://x/upload/1","headers":{"content-type":"a/b","x-amz-acl":"private","Cookie":"sess=1","host":"evil.example"}}`))
	if err != nil || address != "http://x/upload/1" || header.Get("Content-Type") != "a/b" || header.Get("X-Amz-Acl") != "private" || len(header) != 2 {
		t.Errorf("%q, %v, %v", address, header, err)
	}
	for what, err := range map[string]error{
		"list":              second(f.Download.URL([]byte(`[]`))),
		"no url":            second(f.Download.URL([]byte(`{}`))),
		"a number for one":  second(f.Download.URL([]byte(`{"url":1}`))),
		"no part size":      third(f.Upload.Begun([]byte(`{"id":"9","partSize":0}`))),
		"no id":             third(f.Upload.Begun([]byte(`{"id":"","partSize":1}`))),
		"an endless part":   third(f.Upload.Begun([]byte(`{"id":"1","partSize":9000000000000000000}`))),
		"header of numbers": targetError(f.Upload.Target([]byte(`{"url":"http://x/","headers":{"a":1}}`))),
		"header of lines":   targetError(f.Upload.Target([]byte(`{"url":"http://x/","headers":{"a":"b\r\nc: d"}}`))),
	} {
		if !errors.Is(err, catalog.ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second(_ string, err error) error { return err }

func third(_ string, _ int64, err error) error { return err }

func targetError(_ string, _ http.Header, err error) error { return err }

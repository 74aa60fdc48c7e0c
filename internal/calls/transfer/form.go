package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Given holds the query parameters that describe a raw file.
type Given struct{ FileName, SHA256 string }

const (
	// maxArgs bounds the field args, maxHead the form before the file's first byte and again after the file, in bytes.
	maxArgs = 16 << 10
	maxHead = 64 << 10
)

// readFile finds the file in a request: the body itself, or a field of a form. kept is not nil if the file was kept
// on disk to learn its size; the caller must close it. largest is the maximum size, or negative for none.
func (t *Transfers) readFile(r *http.Request, s *source, given Given, largest int) (draft catalog.FileDraft, body io.Reader, kept *spooled, err error) {
	if r.Header.Get("Content-Encoding") != "" {
		return draft, nil, nil, problem.UnsupportedMediaType.New("Send the file as it is, without a Content-Encoding.")
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil, media == "application/x-www-form-urlencoded", media == "multipart/form-data" && params["boundary"] == "":
		return draft, nil, nil, problem.UnsupportedMediaType.New(
			"Send the file with its own Content-Type, such as image/jpeg, or as multipart/form-data with the fields args and file.")
	case media == "multipart/form-data":
		return t.readForm(s, params["boundary"], largest)
	}
	size, err := contentLength(r)
	if err != nil {
		return draft, nil, nil, err
	}
	if given.FileName == "" {
		return draft, nil, nil, problem.ValidationFailed.New("The file has no name. Give one as ?fileName=.").At("query/fileName", "required", "is required")
	}
	return catalog.FileDraft{Name: given.FileName, Type: media, Size: size, SHA256: given.SHA256}, s, nil, nil
}

// contentLength returns the length of the body. It must be known, because platforms require the size before the first
// byte.
func contentLength(r *http.Request) (int64, error) {
	if r.ContentLength > 0 {
		return r.ContentLength, nil
	}
	detail := "The body is empty; send the bytes of the file."
	if r.ContentLength < 0 {
		detail = "The length of the body must be known. Send it with a Content-Length instead of in chunks."
	}
	return 0, problem.ValidationFailed.New(detail).At("header/Content-Length", "required", "must be the number of bytes in the body")
}

// readForm reads a form. If args come first and give the size, it stops at the first byte of the file, which is then
// streamed to the platform. Otherwise it reads the whole form and keeps the file on disk.
func (t *Transfers) readForm(s *source, boundary string, largest int) (draft catalog.FileDraft, file io.Reader, kept *spooled, err error) {
	boundedHead := &boundedHead{from: s, left: maxHead}
	form := multipart.NewReader(boundedHead, boundary)
	var args *catalog.FileDraft
	var name, media string
	defer func() {
		if err != nil && kept != nil {
			kept.close()
		}
	}()
	for fields := 0; ; fields++ {
		field, err := form.NextRawPart()
		if errors.Is(err, io.EOF) && fields > 0 {
			break
		} else if err != nil {
			return draft, nil, kept, brokenForm(err)
		}
		switch {
		case field.FormName() == "args" && args == nil:
			if args, err = readArgs(field); err != nil {
				return draft, nil, kept, err
			}
		case field.FormName() != "file" || kept != nil || field.Header.Get("Content-Transfer-Encoding") != "":
			return draft, nil, kept, problem.ValidationFailed.New("The form must have the field file, with the unencoded bytes of the file, and may have the field args.").
				At("/file", "required", "must be the only field apart from args, sent once and not encoded")
		default:
			name = field.FileName()
			// An invalid type counts as missing.
			media, _, _ = mime.ParseMediaType(field.Header.Get("Content-Type"))
			boundedHead.open = true
			if args != nil && args.Size > 0 { // stream it; whatever follows the file is not read
				draft, err = completeDraft(*args, name, media)
				return draft, field, nil, err
			}
			if kept, err = t.spool.store(field, largest); err != nil {
				return draft, nil, nil, err
			}
			boundedHead.open, boundedHead.left = false, maxHead
		}
	}
	switch {
	case kept == nil:
		return draft, nil, nil, problem.ValidationFailed.New("The form has no file.").At("/file", "required", "is required")
	case kept.size == 0:
		return draft, nil, kept, problem.ValidationFailed.New("The file is empty.").At("/file", "required", "must have at least one byte")
	case args == nil:
		args = &catalog.FileDraft{}
	case args.Size != 0 && args.Size != kept.size:
		return draft, nil, kept, wrongSize("a different number of")
	}
	args.Size = kept.size
	if draft, err = completeDraft(*args, name, media); err == nil {
		file, err = kept.open()
	}
	return draft, file, kept, err
}

// completeDraft fills in name and type from the file's field. args take precedence.
func completeDraft(args catalog.FileDraft, name, media string) (catalog.FileDraft, error) {
	args.Name = cmp.Or(args.Name, name)
	args.Type = cmp.Or(args.Type, media)
	if args.Type == "" {
		return args, problem.ValidationFailed.New("The file has no type.").At("/args/mimeType", "required", "is required, unless the field file has a Content-Type")
	}
	if args.Name == "" {
		return args, problem.ValidationFailed.New("The file has no name.").At("/args/fileName", "required", "is required, unless the field file has a filename")
	}
	return args, nil
}

// wrongSize returns the problem for a file whose size is not that in args: "fewer", "more" or "a different number of"
// bytes.
func wrongSize(how string) error {
	return problem.ValidationFailed.Newf("The file has %s bytes than size says; the upload was not finished.", how).At("/args/size", "range", "must be the number of bytes in the file")
}

// readArgs reads the field args. All of its members are optional.
func readArgs(field io.Reader) (*catalog.FileDraft, error) {
	text, err := io.ReadAll(io.LimitReader(field, maxArgs+1))
	if err != nil {
		return nil, brokenForm(err)
	}
	var in struct {
		FileName string `json:"fileName"`
		Size     *int64 `json:"size"`
		MIMEType string `json:"mimeType"`
		SHA256   string `json:"sha256"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || len(text) > maxArgs {
		return nil, problem.ValidationFailed.New("The field args must be JSON: an object of fileName, size, mimeType and sha256.").
			At("/args", "format", "must be an object of fileName, size, mimeType and sha256, with size a number")
	}
	draft := &catalog.FileDraft{Name: in.FileName, Type: in.MIMEType, SHA256: in.SHA256}
	if in.Size != nil {
		if draft.Size = *in.Size; draft.Size < 1 {
			return nil, problem.ValidationFailed.New("The size of the file must be at least one byte.").At("/args/size", "range", "must be the number of bytes in the file")
		}
	}
	return draft, nil
}

func brokenForm(err error) error {
	return problem.InvalidRequest.New("The form is malformed: its fields are not separated by the boundary in the Content-Type.").Because(err)
}

// checkEnd checks that a file does not have more bytes than were announced.
func checkEnd(body io.Reader) error {
	var one [1]byte
	n, err := io.ReadFull(body, one[:])
	switch {
	case n > 0:
		return wrongSize("more")
	case errors.Is(err, io.EOF):
		return nil
	}
	return brokenForm(err)
}

// boundedHead bounds the parts of a form around its file, of which the multipart package would read any amount. While
// open is set, the file itself is read, without a limit.
type boundedHead struct {
	from io.Reader
	left int
	open bool
}

var errHead = errors.New("the form has too much data around its file")

func (h *boundedHead) Read(b []byte) (int, error) {
	if h.open {
		return h.from.Read(b)
	}
	if h.left == 0 {
		return 0, errHead
	}
	n, err := h.from.Read(b[:min(len(b), h.left)])
	h.left -= n
	return n, err
}

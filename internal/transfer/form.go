package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/catalog"
	"github.com/stagedoor/stagedoor/internal/problem"
)

// Given is what a caller says of a raw file beside its headers.
type Given struct{ FileName, SHA256 string }

const (
	// maxArgs bounds what is said of a file in a form, maxHead all of the form before the file's first byte.
	maxArgs = 16 << 10
	maxHead = 64 << 10
)

// read finds the file in a request: the body itself, or the last part of a form.
func read(r *http.Request, s *source, given Given) (catalog.FileDraft, io.Reader, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return catalog.FileDraft{}, nil, problem.UnsupportedMediaType.New("Send the file as it is, without a Content-Encoding.")
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil, media == "application/x-www-form-urlencoded", media == "multipart/form-data" && params["boundary"] == "":
		return catalog.FileDraft{}, nil, problem.UnsupportedMediaType.New(
			"Send the file with its own Content-Type, such as image/jpeg, or as multipart/form-data with the fields args and file.")
	case media == "multipart/form-data":
		return readForm(s, params["boundary"])
	}
	size, err := length(r)
	if err != nil {
		return catalog.FileDraft{}, nil, err
	}
	if given.FileName == "" {
		return catalog.FileDraft{}, nil, problem.ValidationFailed.New("The file has no name. Give one as ?fileName=.").At("query/fileName", "required", "is required")
	}
	return catalog.FileDraft{Name: given.FileName, Type: media, Size: size, SHA256: given.SHA256}, s, nil
}

// length is the body's. The platform must be told before the first byte goes out.
func length(r *http.Request) (int64, error) {
	if r.ContentLength > 0 {
		return r.ContentLength, nil
	}
	detail := "The body is empty; send the bytes of the file."
	if r.ContentLength < 0 {
		detail = "The length of the body must be known. Send it with a Content-Length instead of in chunks."
	}
	return 0, problem.ValidationFailed.New(detail).At("header/Content-Length", "required", "must be the number of bytes in the body")
}

// readForm reads a form up to the first byte of the file in it.
func readForm(s *source, boundary string) (draft catalog.FileDraft, file io.Reader, err error) {
	head := &head{from: s, left: maxHead}
	form := multipart.NewReader(head, boundary)
	first, err := form.NextRawPart()
	if err != nil {
		return draft, nil, broken(err)
	}
	if first.FormName() != "args" {
		return draft, nil, problem.ValidationFailed.New("The form must begin with the field args.").At("/args", "required", "must be the first field of the form")
	}
	text, err := io.ReadAll(io.LimitReader(first, maxArgs+1))
	if err != nil {
		return draft, nil, broken(err)
	}
	if draft, err = readArgs(text); err != nil {
		return draft, nil, err
	}
	second, err := form.NextRawPart()
	if err != nil && !errors.Is(err, io.EOF) {
		return draft, nil, broken(err)
	}
	if err != nil || second.FormName() != "file" || second.Header.Get("Content-Transfer-Encoding") != "" {
		return draft, nil, problem.ValidationFailed.New("Behind args the form must have the field file, with the bytes of the file as they are.").
			At("/file", "required", "must be the second field of the form")
	}
	head.open = true
	if draft.Name == "" {
		draft.Name = second.FileName()
	}
	if draft.Type == "" {
		draft.Type, _, err = mime.ParseMediaType(second.Header.Get("Content-Type"))
		if err != nil {
			return draft, nil, problem.ValidationFailed.New("The file has no type.").At("/args/mimeType", "required", "is required, unless the field file has a Content-Type")
		}
	}
	return draft, second, nil
}

// readArgs reads what a form says of its file.
func readArgs(text []byte) (catalog.FileDraft, error) {
	var in struct {
		FileName string `json:"fileName"`
		Size     int64  `json:"size"`
		MIMEType string `json:"mimeType"`
		SHA256   string `json:"sha256"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || len(text) > maxArgs {
		return catalog.FileDraft{}, problem.ValidationFailed.New("The field args must be JSON: an object of fileName, size, mimeType and sha256.").
			At("/args", "format", "must be an object of fileName, size, mimeType and sha256, with size a number")
	}
	if in.Size < 1 {
		return catalog.FileDraft{}, problem.ValidationFailed.New("The size of the file must be known before it comes.").At("/args/size", "required", "must be the number of bytes in the file")
	}
	return catalog.FileDraft{Name: in.FileName, Type: in.MIMEType, Size: in.Size, SHA256: in.SHA256}, nil
}

func broken(err error) error {
	return problem.InvalidRequest.New("The form is broken: it does not have its fields between the boundaries that the Content-Type names.").Because(err)
}

// ended makes sure that a file has no more bytes than were announced.
func ended(body io.Reader) error {
	var one [1]byte
	n, err := io.ReadFull(body, one[:])
	switch {
	case n > 0:
		return problem.ValidationFailed.New("The file has more bytes than size says; the upload was not finished.").At("/args/size", "range", "must be the number of bytes in the file")
	case errors.Is(err, io.EOF):
		return nil
	}
	return broken(err)
}

// head bounds what comes before a file: the library would take as much of it as it is sent.
type head struct {
	from io.Reader
	left int
	open bool
}

var errHead = errors.New("the form has too much before its file")

func (h *head) Read(b []byte) (int, error) {
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

package driver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// maxFormAnswer bounds the response to a form, in bytes.
const maxFormAnswer = 1 << 20

// FormRequest uploads a whole file as a field of a form.
type FormRequest struct {
	Form *catalog.Form
	// Args are the arguments of the form's method.
	Args      catalog.Args
	Name      string
	MediaType string
	// Body is the file, and Size its length in bytes.
	Body io.Reader
	Size int64
}

// SendForm uploads a whole file in one multipart request; the answer has the method's result. The file is streamed:
// another goroutine reads the body and may still read it after SendForm has failed. Also on error, the answer contains
// the sizes, the duration and the changes of the session. Errors are those of Call.
func (f *Files) SendForm(ctx context.Context, via Via, s Session, file FormRequest) (Answer, error) {
	d, form := f.driver, file.Form
	a := Answer{Session: s}
	at, err := d.locate(via)
	if err != nil {
		return a, d.transportProblem(ctx, form.Method, err)
	}
	req, fields := form.Request(file.Args)
	before, after, contentType, err := encodeForm(fields, form.Field, file.Name, file.MediaType)
	if err != nil {
		return a, fmt.Errorf("call %s: %w", form.Method.ID(), err)
	}
	address := at.origin + at.path + req.Path
	if req.Query != "" {
		address += "?" + req.Query
	}
	// LimitReader and the length keep a longer body from breaking the form. A shorter one breaks the request.
	whole := io.MultiReader(bytes.NewReader(before), io.LimitReader(file.Body, file.Size), bytes.NewReader(after))
	out, err := http.NewRequestWithContext(ctx, req.Method, address, whole)
	if err != nil {
		return a, fmt.Errorf("call %s: %w", form.Method.ID(), ErrAddress) // the library's error would repeat the URL
	}
	out.ContentLength = int64(len(before)) + file.Size + int64(len(after))
	if out.Header, err = d.newHeader(at, s); err != nil {
		return a, d.transportProblem(ctx, form.Method, err)
	}
	for name, values := range req.Header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	out.Header.Set("Content-Type", contentType)
	began := d.deps.Now()
	limits := egress.Limits{Header: max(form.Method.Timeout, fileHeaderTimeout), Idle: fileIdleTimeout, Total: egress.None, Bytes: maxFormAnswer}
	resp, err := d.client(via, at.origins).Do(out, limits) //nolint:bodyclose // egress.Read closes it
	if err != nil {
		return a, d.transportProblem(ctx, form.Method, err)
	}
	text, err := egress.Read(resp)
	r := reply{status: resp.StatusCode, header: resp.Header, body: text, took: d.deps.Now().Sub(began)}
	a = d.newAnswer(s, &r)
	a.Sent = int(out.ContentLength)
	if err != nil {
		return a, d.transportProblem(ctx, form.Method, err)
	}
	if refused := d.classifyReply(&r); refused != nil {
		return a, refused
	}
	if a.Result, err = form.Method.AppendResult(nil, text); err != nil {
		return a, responseProblem(form.Method, err)
	}
	return a, nil
}

// encodeForm returns what comes before and after the file in a form.
func encodeForm(fields []catalog.FormField, field, fileName, mediaType string) (before, after []byte, contentType string, err error) {
	var text bytes.Buffer
	form := multipart.NewWriter(&text)
	for _, one := range fields {
		if err := form.WriteField(one.Name, one.Value); err != nil {
			return nil, nil, "", err
		}
	}
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", multipart.FileContentDisposition(field, fileName))
	header.Set("Content-Type", mediaType)
	if _, err := form.CreatePart(header); err != nil {
		return nil, nil, "", err
	}
	size := text.Len()
	if err := form.Close(); err != nil {
		return nil, nil, "", err
	}
	return text.Bytes()[:size], text.Bytes()[size:], form.FormDataContentType(), nil
}

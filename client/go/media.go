package stagedoor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
)

// MediaService transfers an account's files to and from the platform. Files are streamed; neither the client nor the
// service holds them in memory.
type MediaService struct{ account *AccountClient }

// UploadOptions describes a file to upload.
type UploadOptions struct {
	// FileName is required.
	FileName string
	// ContentType is the media type. Default: application/octet-stream.
	ContentType string
	// Size is the size in bytes. It is required unless the reader is an *os.File or has a method
	// Len, as bytes.Reader does.
	Size int64
	// SHA256 is the hash of the file in 64 hexadecimal digits. If it is set, the platform verifies the file.
	SHA256 string
}

// Upload sends a file to the platform. Use the MediaID of the result in posts and messages, after the event
// mediaReady. Upload does not retry. If it fails midway, the *Problem has the members uploadId and
// nextPart; continue with UploadPart.
func (s *MediaService) Upload(ctx context.Context, file io.Reader, o UploadOptions) (*Upload, error) {
	size, err := sizeOf(file, o.Size)
	if err != nil {
		return nil, err
	}
	q := url.Values{"fileName": {o.FileName}}
	if o.SHA256 != "" {
		q.Set("sha256", o.SHA256)
	}
	var response struct {
		Result *Upload `json:"result"`
	}
	err = s.account.client.upload(ctx, Request{Method: http.MethodPost, Path: s.path(), Query: q}, file, size, o.ContentType, &response)
	return response.Result, err
}

// UploadPart sends one part of an upload that Uploads.Init started or that was interrupted. Every part has PartSize
// bytes, the last one the rest. Numbers start with 1. Call Uploads.Complete after the last part.
func (s *MediaService) UploadPart(ctx context.Context, uploadID string, number int, part io.Reader, size int64) (*UploadedPart, error) {
	size, err := sizeOf(part, size)
	if err != nil {
		return nil, err
	}
	var response struct {
		Part *UploadedPart `json:"part"`
	}
	where := s.path() + path("/uploads/%s/parts/%s", uploadID, number)
	err = s.account.client.upload(ctx, Request{Method: http.MethodPut, Path: where}, part, size, "", &response)
	return response.Part, err
}

// upload sends a file once and decodes the response into a value.
func (c *Client) upload(ctx context.Context, r Request, file io.Reader, size int64, contentType string, into any) error {
	// The transport closes the body; NopCloser keeps the caller's file open.
	req, err := c.newRequest(ctx, r, io.NopCloser(file))
	if err != nil {
		return err
	}
	contentType = cmp.Or(contentType, "application/octet-stream")
	req.ContentLength = size
	req.Header.Set("Content-Type", contentType)
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return &ConnectionError{Err: err}
	}
	return nil
}

// DownloadOptions selects the quality and the range of a download.
type DownloadOptions struct {
	// Quality is a name such as thumb, preview, full or source. Default: the platform's default.
	Quality string
	// Range and IfRange resume a download: a range such as bytes=1024-, and the ETag that the file must still have.
	Range, IfRange string
	// IfNoneMatch is an ETag. File.Status is 304 if the file still has it.
	IfNoneMatch string
}

// File is a download. The caller closes its Body.
type File struct {
	// Status is 200, 206 for a range, or 304.
	Status int
	Header http.Header
	Body   io.ReadCloser
	// Size is the size of Body in bytes, or -1 if it is unknown.
	Size        int64
	ContentType string
	ETag        string
}

// Download returns a media file of the vault, a post or a message.
func (s *MediaService) Download(ctx context.Context, mediaID string, o DownloadOptions) (*File, error) {
	q := url.Values{}
	if o.Quality != "" {
		q.Set("quality", o.Quality)
	}
	return s.account.client.download(ctx, s.path()+"/"+url.PathEscape(mediaID), q, o)
}

// Fetch returns the file at an address from a result of the platform, such as an avatar.
func (s *MediaService) Fetch(ctx context.Context, address string, o DownloadOptions) (*File, error) {
	return s.account.client.download(ctx, s.path(), url.Values{"url": {address}}, o)
}

func (s *MediaService) path() string {
	return "/v1/accounts/" + url.PathEscape(s.account.ID) + "/media"
}

func (c *Client) download(ctx context.Context, where string, q url.Values, o DownloadOptions) (*File, error) {
	header := http.Header{"Accept": {"*/*"}}
	for name, value := range map[string]string{"Range": o.Range, "If-Range": o.IfRange, "If-None-Match": o.IfNoneMatch} {
		if value != "" {
			header.Set(name, value)
		}
	}
	for try := 0; ; try++ {
		req, err := c.newRequest(ctx, Request{Path: where, Query: q, Header: header}, nil)
		if err != nil {
			return nil, err
		}
		res, err := c.send(req)
		if err == nil {
			return &File{
				Status: res.StatusCode, Header: res.Header, Body: res.Body, Size: res.ContentLength,
				ContentType: res.Header.Get("Content-Type"), ETag: res.Header.Get("ETag"),
			}, nil
		}
		wait, again := c.timing.retryAfter(err, try, true)
		if !again || try >= c.retries {
			return nil, err
		}
		if err := c.timing.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// sizeOf returns the number of bytes that r will yield, or given if it cannot tell.
func sizeOf(r io.Reader, given int64) (int64, error) {
	switch f := r.(type) {
	case interface{ Len() int }:
		return int64(f.Len()), nil
	case *os.File:
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			break
		}
		info, err := f.Stat()
		if err != nil {
			return 0, fmt.Errorf("stagedoor: %w", err)
		}
		return info.Size() - at, nil
	}
	if given <= 0 {
		return 0, errors.New("stagedoor: the size of the file is unknown; set it")
	}
	return given, nil
}

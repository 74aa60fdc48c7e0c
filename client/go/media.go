package stagedoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
)

// MediaService carries an account's files between you and the platform. They are passed on as they come; neither side keeps
// them in memory.
type MediaService struct{ account *AccountClient }

// UploadOptions says what a file is.
type UploadOptions struct {
	// FileName is needed.
	FileName string
	// ContentType is application/octet-stream if it is empty.
	ContentType string
	// Size is needed, unless the reader is a file or tells its length, as those of bytes and strings do.
	Size int64
	// SHA256 makes the platform compare what arrives; 64 hexadecimal digits.
	SHA256 string
}

// Upload sends a file to the platform. The MediaID of the result is what posts and messages take; the event mediaReady says
// when it can be used. It is not repeated by itself: a *Problem in the middle has the members uploadId and nextPart, with
// which UploadPart goes on.
func (s *MediaService) Upload(ctx context.Context, file io.Reader, o UploadOptions) (*Upload, error) {
	size, err := sizeOf(file, o.Size)
	if err != nil {
		return nil, err
	}
	q := url.Values{"fileName": {o.FileName}}
	if o.SHA256 != "" {
		q.Set("sha256", o.SHA256)
	}
	var answer struct {
		Result *Upload `json:"result"`
	}
	err = s.put(ctx, Request{Method: http.MethodPost, Path: s.path(), Query: q}, file, size, o.ContentType, &answer)
	return answer.Result, err
}

// UploadPart sends one part of an upload that was begun by Uploads.Init, or that broke off. Every part has the upload's
// PartSize bytes, the last one what is left; Uploads.Complete ends it. Numbers begin with 1.
func (s *MediaService) UploadPart(ctx context.Context, uploadID string, number int, part io.Reader, size int64) (*UploadedPart, error) {
	size, err := sizeOf(part, size)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Part *UploadedPart `json:"part"`
	}
	where := s.path() + path("/uploads/%s/parts/%s", uploadID, number)
	err = s.put(ctx, Request{Method: http.MethodPut, Path: where}, part, size, "", &answer)
	return answer.Part, err
}

func (s *MediaService) put(ctx context.Context, r Request, file io.Reader, size int64, contentType string, answer any) error {
	// Without a Close of its own, so that the caller's file stays open.
	req, err := s.account.client.newRequest(ctx, r, io.NopCloser(file))
	if err != nil {
		return err
	}
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", contentType)
	res, err := s.account.client.send(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		return &ConnectionError{Err: err}
	}
	return nil
}

// DownloadOptions says which form of a file is wanted, and how much of it.
type DownloadOptions struct {
	// Quality is such as thumb, preview, full or source; the platform's usual one if it is empty.
	Quality string
	// Range is such as bytes=1024-, and IfRange the ETag that must still hold, to go on with a download that broke off.
	Range, IfRange string
	// IfNoneMatch is an ETag; Status is 304 if the file still has it.
	IfNoneMatch string
}

// File is a download. Close its Body.
type File struct {
	// Status is 200, 206 for a part of it, or 304.
	Status int
	Header http.Header
	Body   io.ReadCloser
	// Size is -1 if it is not known.
	Size        int64
	ContentType string
	ETag        string
}

// Download gets a medium of the vault, a post or a message.
func (s *MediaService) Download(ctx context.Context, mediaID string, o DownloadOptions) (*File, error) {
	q := url.Values{}
	if o.Quality != "" {
		q.Set("quality", o.Quality)
	}
	return s.get(ctx, s.path()+"/"+url.PathEscape(mediaID), q, o)
}

// Fetch gets what is behind an address that an answer of the platform holds, such as an avatar's.
func (s *MediaService) Fetch(ctx context.Context, address string, o DownloadOptions) (*File, error) {
	return s.get(ctx, s.path(), url.Values{"url": {address}}, o)
}

func (s *MediaService) path() string {
	return "/v1/accounts/" + url.PathEscape(s.account.ID) + "/media"
}

func (s *MediaService) get(ctx context.Context, where string, q url.Values, o DownloadOptions) (*File, error) {
	header := http.Header{"Accept": {"*/*"}}
	for name, value := range map[string]string{"Range": o.Range, "If-Range": o.IfRange, "If-None-Match": o.IfNoneMatch} {
		if value != "" {
			header.Set(name, value)
		}
	}
	c := s.account.client
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
		wait, again := c.pace.after(err, try, true)
		if !again || try >= c.retries {
			return nil, err
		}
		if err := c.pace.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// sizeOf is how much there is to read.
func sizeOf(r io.Reader, said int64) (int64, error) {
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
	if said <= 0 {
		return 0, errors.New("stagedoor: the size of the file is not known; say it")
	}
	return said, nil
}

package logsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// endpoint posts batches as JSON lines. Any status of 200 to 299 means that the receiver has them.
type endpoint struct {
	url, tokenFile string
	client         *http.Client
}

func (e endpoint) Write(ctx context.Context, records []Record) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(encode(records)))
	if err != nil {
		return errors.New("the endpoint is not a valid address")
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", "stagedoor")
	if e.tokenFile != "" {
		token, err := readToken(e.tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which may have a secret in its query
		}
		return fmt.Errorf("post to the endpoint: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the endpoint answers with the status %d", resp.StatusCode)
	}
	return nil
}

func readToken(file string) (secret.String, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return secret.String{}, fmt.Errorf("read the token of the endpoint: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return secret.String{}, errors.New("the file with the token of the endpoint does not have one line")
	}
	return secret.New(token), nil
}

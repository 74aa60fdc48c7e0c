// Package stagedoor is the Go client of the Stagedoor API.
//
// A Client holds the API key. Its fields are the operations of the API: Accounts, Connect, Webhooks, Events, Keys and
// so on. Client.Account returns the methods of one connected account: the platform's resources, files and events.
//
//	client, err := stagedoor.New(stagedoor.Options{}) // STAGEDOOR_API_KEY, STAGEDOOR_URL
//	account := client.Account("acct_01k9x5ahzre4bb3069xb2way0g")
//	message, err := account.Messages.Send(ctx, stagedoor.MessagesSendParams{ChatID: chat, Text: "Hi"})
//	for message, err := range account.Messages.ListAll(ctx, stagedoor.MessagesListParams{ChatID: chat}) { … }
//	for event, err := range account.Stream(ctx, stagedoor.StreamOptions{}).All() { … }
//
// A failed call returns a *Problem if the service responded, and a *ConnectionError if it did not. The client retries
// only if the service says that a retry can help, and writes only with an idempotency key, which it adds automatically.
package stagedoor

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Version is the version of this library. make generate sets it from client/VERSION.
const Version = "0.1.0"

const (
	defaultURL     = "https://api.stagedoor.example"
	defaultRetries = 2
	defaultTimeout = 60 * time.Second
)

// Options configures a Client. The zero value uses the environment and the defaults.
type Options struct {
	// APIKey is the API key. Default: STAGEDOOR_API_KEY.
	APIKey string
	// BaseURL is scheme and host of the service. Default: STAGEDOOR_URL.
	BaseURL string
	// MaxRetries limits the retries of a call. Default: 2. Negative means none.
	MaxRetries int
	// Timeout limits each try of a call, but not streams and file transfers. Default: one minute.
	Timeout time.Duration
	// HTTPClient sends the requests. Default: a client with its own connection pool.
	HTTPClient *http.Client
	// UserAgent is sent before the library's own name.
	UserAgent string
}

// Client calls the API. It is safe for concurrent use; create one and share it.
type Client struct {
	Groups

	base      string
	key       string
	retries   int
	timeout   time.Duration
	http      *http.Client
	userAgent string
	timing    timing
}

// New returns a client. It fails if the base URL or the key is malformed. It sends no request.
func New(o Options) (*Client, error) {
	o.APIKey = cmp.Or(o.APIKey, os.Getenv("STAGEDOOR_API_KEY"))
	o.BaseURL = cmp.Or(o.BaseURL, os.Getenv("STAGEDOOR_URL"), defaultURL)
	base, err := url.Parse(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("stagedoor: invalid base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("stagedoor: the base URL %q must have the scheme http or https and a host", o.BaseURL)
	}
	if strings.ContainsAny(o.APIKey, "\r\n \t") {
		return nil, errors.New("stagedoor: the API key contains white space")
	}
	c := &Client{
		base: strings.TrimRight(o.BaseURL, "/"), key: o.APIKey, retries: o.MaxRetries, timeout: o.Timeout, http: o.HTTPClient,
		userAgent: strings.TrimSpace(o.UserAgent + " stagedoor-go/" + Version), timing: realTiming,
	}
	switch {
	case c.retries == 0:
		c.retries = defaultRetries
	case c.retries < 0:
		c.retries = 0
	}
	c.timeout = cmp.Or(c.timeout, defaultTimeout)
	if c.http == nil {
		c.http = &http.Client{Transport: transport()}
	}
	c.Groups = newGroups(c)
	return c, nil
}

// transport returns a copy of the default transport that keeps more idle connections, since all requests
// go to one host.
func transport() http.RoundTripper {
	own, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own = own.Clone()
	own.MaxIdleConnsPerHost = 16
	return own
}

// BaseURL returns the address that the client sends its requests to.
func (c *Client) BaseURL() string { return c.base }

// AccountClient calls the platform's methods on one connected account.
type AccountClient struct {
	Resources
	// Media transfers the account's files.
	Media *MediaService
	// ID is the account's id.
	ID string

	client *Client
}

// Account returns a client for a connected account. It sends no request and does not check the id.
func (c *Client) Account(id string) *AccountClient {
	a := &AccountClient{ID: id, client: c}
	a.Resources = newResources(a)
	a.Media = &MediaService{account: a}
	return a
}

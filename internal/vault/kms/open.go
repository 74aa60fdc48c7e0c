package kms

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Settings name a service and a key, as operators write them.
type Settings struct {
	// Key has one of these forms:
	//
	//	local:/path/to/keyset.json
	//	transit:https://vault.internal:8200/transit/stagedoor   (mount and name of the key)
	//	aws:arn:aws:kms:eu-west-1:111122223333:key/…
	//	gcp:projects/…/locations/…/keyRings/…/cryptoKeys/…
	Key string
	// Token, TokenFile, Namespace and RootsFile are for transit; see TransitConfig.
	Token     secret.String
	TokenFile string
	Namespace string
	RootsFile string
	// Endpoint is the private endpoint of aws or gcp, if there is one.
	Endpoint string
	// Create creates a missing local keyset. It is for development.
	Create bool
}

// Open makes the adapter that the settings name. It does not wait for the service.
func Open(ctx context.Context, s Settings) (Wrapper, error) {
	kind, rest, _ := strings.Cut(s.Key, ":")
	switch {
	case kind == "local" && rest != "":
		return OpenLocal(LocalConfig{File: rest, Create: s.Create})
	case kind == "transit" && rest != "":
		return openTransit(rest, s)
	case kind == "aws" && rest != "":
		return OpenAWS(ctx, AWSConfig{Key: rest, Endpoint: s.Endpoint})
	case kind == "gcp" && rest != "":
		return OpenGCP(GCPConfig{Key: rest, Endpoint: s.Endpoint})
	}
	return nil, errors.New("the key must look like local:/path/to/keyset.json, transit:https://host:8200/transit/key, aws:arn:aws:kms:… or gcp:projects/…")
}

// openTransit takes the mount and the key from the path of the URL.
func openTransit(text string, s Settings) (*Transit, error) {
	address, err := url.Parse(text)
	if err != nil {
		// The cause may contain a password.
		return nil, errors.New("the transit key must look like https://vault.internal:8200/transit/stagedoor")
	}
	mount, key := path.Split(strings.TrimPrefix(address.Path, "/"))
	address.Path, address.RawPath = "", ""
	transit, err := OpenTransit(TransitConfig{
		Address: address.String(), Mount: strings.TrimSuffix(mount, "/"), Key: key,
		Namespace: s.Namespace, Token: s.Token, TokenFile: s.TokenFile, RootsFile: s.RootsFile,
	})
	if err != nil {
		return nil, fmt.Errorf("transit: %w", err)
	}
	return transit, nil
}

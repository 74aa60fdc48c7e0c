package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Document returns the OpenAPI document as it is committed: of a server at a neutral address, indented for readable
// diffs. It needs no engine, because nothing is connected until it is used.
func Document(ctx context.Context) ([]byte, error) {
	nowhere := "127.0.0.1:1"
	n, err := NewNode(ctx, config.Config{
		Database: secret.New("postgres://" + nowhere + "/none"), Redis: secret.New("redis://" + nowhere), NATS: secret.New("nats://" + nowhere),
		PublicURL: "https://api.stagedoor.example", MaxConns: 2, EgressMaxIdle: 1, Roles: []string{"api"},
		Regions: config.Defaults().Regions, Platforms: config.Defaults().Platforms,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer n.Close()
	doc, err := n.servers.api.OpenAPI()
	if err != nil {
		return nil, err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, doc, "", "  "); err != nil {
		return nil, fmt.Errorf("indent OpenAPI document: %w", err)
	}
	pretty.WriteByte('\n')
	return pretty.Bytes(), nil
}

package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/notice/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
)

// errRevoked means that a message need not be tried again.
var errRevoked = errors.New("the URL of notices does not exist any more")

// post sends what an organisation was told to its URL, at least once. A URL that was removed in the meantime gets nothing.
func (s *Notices) post(ctx context.Context, args postArgs) error {
	setting, err := s.Setting(ctx, args.Org)
	if err != nil || !setting.HasSlack() {
		return err
	}
	body, err := s.slackBody(ctx, args, setting)
	if err != nil || body == nil {
		return err
	}
	url, err := s.deps.Seal.Open(ctx, slackAddress(args.Org, setting.slackVersion), setting.slack)
	if err != nil {
		return fmt.Errorf("open the URL of notices: %w", err)
	}
	answer, err := s.deps.Public.Post(ctx, url.Reveal(), http.Header{"Content-Type": {"application/json"}, "User-Agent": {"stagedoor"}}, body)
	if err == nil && answer.Status/100 != 2 {
		err = fmt.Errorf("the URL of notices answers with the status %d", answer.Status)
		if answer.Status == http.StatusNotFound || answer.Status == http.StatusGone {
			err = fmt.Errorf("%w: status %d", errRevoked, answer.Status)
		}
	}
	if err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot post notice", slog.String(logkey.OrgID, string(args.Org)), slog.Any(logkey.Error, err))
	}
	return err
}

// slackBody returns the message, or nil if nothing of it still holds.
func (s *Notices) slackBody(ctx context.Context, args postArgs, setting Setting) ([]byte, error) {
	o, err := s.deps.Orgs.Get(ctx, args.Org)
	if errors.Is(err, problem.OrgNotFound.New("")) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := db.New(s.deps.DB).ToldAt(ctx, db.ToldAtParams{OrgID: args.Org, Kind: string(args.Told), ToldAt: &args.At})
	if err != nil {
		return nil, err
	}
	data := make([][]byte, len(rows))
	for i, r := range rows {
		data[i] = r.Data
	}
	facts, err := s.readFacts(ctx, args.Org, args.Told, data, args.At)
	if err != nil || len(facts) == 0 {
		return nil, err
	}
	brief, err := s.deps.Mail.Brief(s.message(o, args.Told, setting.Locale, facts, args.At), args.At)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"text": slackText(brief)})
}

// slackText writes a message in Slack's markup, in which three characters are special.
func slackText(b mail.Brief) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	var text strings.Builder
	fmt.Fprintf(&text, "*%s*\n", escape.Replace(b.Subject))
	for _, it := range b.Items {
		fmt.Fprintf(&text, "• %s\n", escape.Replace(it))
	}
	fmt.Fprintf(&text, "<%s|%s>", escape.Replace(b.Link), escape.Replace(b.Button))
	return text.String()
}

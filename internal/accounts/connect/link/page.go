package link

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Page holds the appearance of an org's connect pages, and which sites may frame them.
type Page struct {
	// BrandLight and BrandDark are colours as #rrggbb. Empty means our own colour; an empty BrandDark follows from
	// BrandLight.
	BrandLight, BrandDark string
	// Scheme is system, light or dark.
	Scheme string
	// AllowedOrigins may frame the pages of attempts, and of sessions without their own list.
	AllowedOrigins []string
	// HelpURL is the org's help page for creators; empty for none.
	HelpURL string
	// LogoTag is a hash of the logo, for its address; empty for none. SetLogo changes it, and SetPage does not.
	LogoTag string
}

// The schemes.
const (
	SchemeSystem = "system"
	SchemeLight  = "light"
	SchemeDark   = "dark"
)

func defaultPage() Page { return Page{Scheme: SchemeSystem, AllowedOrigins: []string{}} }

// colour matches the only form of a colour that is accepted.
var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// Page reads an org's page settings; defaults if they were never set.
func (s *Sessions) Page(ctx context.Context, org id.Org) (Page, error) {
	return getPage(ctx, s.deps.DB, org)
}

// SetPage validates and replaces an org's page settings, and writes an audit entry.
func (s *Sessions) SetPage(ctx context.Context, by audit.By, o org.Org, p Page) (Page, error) {
	p.Scheme = cmp.Or(p.Scheme, SchemeSystem)
	if p.AllowedOrigins == nil {
		p.AllowedOrigins = []string{}
	}
	if err := p.validate(o.Environment); err != nil {
		return Page{}, err
	}
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		before, err := getPage(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		p.LogoTag = before.LogoTag
		if err := putPage(ctx, tx, o.ID, p, s.deps.Now().Truncate(time.Microsecond)); err != nil {
			return err
		}
		changes := audit.Changes{}
		changes.Note("brandLight", before.BrandLight, p.BrandLight)
		changes.Note("brandDark", before.BrandDark, p.BrandDark)
		changes.Note("scheme", before.Scheme, p.Scheme)
		changes.Note("helpUrl", before.HelpURL, p.HelpURL)
		if !slices.Equal(before.AllowedOrigins, p.AllowedOrigins) {
			changes["allowedOrigins"] = audit.Change{From: before.AllowedOrigins, To: p.AllowedOrigins}
		}
		return s.deps.Audit.Record(ctx, tx, o.ID, by, string(o.ID), changes)
	})
	return p, err
}

func (p Page) validate(env environment.Environment) error {
	bad := problem.ValidationFailed.New("The page has values that are not allowed.")
	if p.BrandLight != "" && !colour.MatchString(p.BrandLight) {
		bad.At("/brand_light", "format", "must be a colour such as #4f46e5")
	}
	if p.BrandDark != "" && !colour.MatchString(p.BrandDark) {
		bad.At("/brand_dark", "format", "must be a colour such as #a5b4fc")
	}
	if p.Scheme != SchemeSystem && p.Scheme != SchemeLight && p.Scheme != SchemeDark {
		bad.At("/scheme", "enum", "must be system, light or dark")
	}
	if p.HelpURL != "" && !validURL(p.HelpURL, env) {
		bad.At("/help_url", "format", urlRule(env))
	}
	validateOrigins(bad, "/allowed_origins", p.AllowedOrigins, env)
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

package world

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

func (c *Creator) Masses() *Table[row.Mass, *row.Mass] {
	return lazily(c, &c.tables.masses, row.KindMass, seed.MassList)
}

// Posts returns the creator's posts, and a few of followed creators.
func (c *Creator) Posts() *Table[row.Post, *row.Post] {
	return lazily(c, &c.tables.posts, row.KindPost, seed.PostList)
}

func (c *Creator) Comments(post int64) *Table[row.Comment, *row.Comment] {
	return below(c, &c.tables.comments, row.KindComment, post, func() []*row.Comment { return seed.Comments(c.Profile.Origin, post) })
}

func (c *Creator) Labels() *Table[row.Label, *row.Label] {
	return lazily(c, &c.tables.labels, row.KindLabel, seed.Labels)
}

// Stories returns the active and the archived stories.
func (c *Creator) Stories() *Table[row.Story, *row.Story] {
	return lazily(c, &c.tables.stories, row.KindStory, seed.Stories)
}

func (c *Creator) Highlights() *Table[row.Highlight, *row.Highlight] {
	return lazily(c, &c.tables.highlights, row.KindHighlight, seed.Highlights)
}

// Streams returns the past, live and scheduled streams.
func (c *Creator) Streams() *Table[row.Stream, *row.Stream] {
	return lazily(c, &c.tables.streams, row.KindStream, seed.StreamList)
}

func (c *Creator) StreamComments(stream int64) *Table[row.Comment, *row.Comment] {
	return below(c, &c.tables.streamComments, row.KindStreamComment, stream, func() []*row.Comment {
		return seed.StreamComments(c.Profile.Origin, stream)
	})
}

func (c *Creator) Media() *Table[row.Media, *row.Media] {
	return lazily(c, &c.tables.media, row.KindMedia, seed.MediaList)
}

func (c *Creator) Folders() *Table[row.Folder, *row.Folder] {
	return lazily(c, &c.tables.folders, row.KindFolder, seed.Folders)
}

func (c *Creator) Uploads() *Table[row.Upload, *row.Upload] {
	return lazily(c, &c.tables.uploads, row.KindUpload, seed.Uploads)
}

func (c *Creator) Drafts() *Table[row.Draft, *row.Draft] {
	return lazily(c, &c.tables.drafts, row.KindDraft, seed.Drafts)
}

func (c *Creator) TrackingLinks() *Table[row.Link, *row.Link] {
	return lazily(c, &c.tables.tracking, row.KindTrackingLink, seed.TrackingLinkList)
}

func (c *Creator) TrialLinks() *Table[row.Link, *row.Link] {
	return lazily(c, &c.tables.trials, row.KindTrialLink, seed.TrialLinkList)
}

func (c *Creator) Promotions() *Table[row.Promotion, *row.Promotion] {
	return lazily(c, &c.tables.promotions, row.KindPromotion, seed.PromotionList)
}

func (c *Creator) Bundles() *Table[row.Bundle, *row.Bundle] {
	return lazily(c, &c.tables.bundles, row.KindBundle, seed.Bundles)
}

func (c *Creator) Payouts() *Table[row.Payout, *row.Payout] {
	return lazily(c, &c.tables.payouts, row.KindPayout, seed.Payouts)
}

func (c *Creator) Notices() *Table[row.Notice, *row.Notice] {
	return lazily(c, &c.tables.notices, row.KindNotice, seed.Notices)
}

func (c *Creator) SocialLinks() *Table[row.SocialLink, *row.SocialLink] {
	return lazily(c, &c.tables.social, row.KindSocialLink, seed.SocialLinks)
}

func (c *Creator) Forms() *Table[row.Form, *row.Form] {
	return lazily(c, &c.tables.forms, row.KindForm, seed.Forms)
}

// Settings returns the creator's settings. Call SaveSettings after changing them.
func (c *Creator) Settings() *row.Settings {
	return c.settings().All()[0]
}

// SaveSettings marks the settings as changed, so that they are committed.
func (c *Creator) SaveSettings() { c.settings().Put(c.Settings()) }

func (c *Creator) settings() *Table[row.Settings, *row.Settings] {
	return lazily(c, &c.tables.settings, row.KindSettings, func(o row.Origin) []*row.Settings { return []*row.Settings{seed.Settings(o)} })
}

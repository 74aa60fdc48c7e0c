package world

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

func (c *Creator) Masses() *Table[row.Mass, *row.Mass] {
	return table(c, row.KindMass, seed.MassList)
}

// Posts returns the creator's posts, and a few of followed creators.
func (c *Creator) Posts() *Table[row.Post, *row.Post] {
	return table(c, row.KindPost, seed.PostList)
}

func (c *Creator) Comments(post int64) *Table[row.Comment, *row.Comment] {
	return tableBelow(c, row.KindComment, post, seed.Comments)
}

func (c *Creator) Labels() *Table[row.Label, *row.Label] {
	return table(c, row.KindLabel, seed.Labels)
}

// Stories returns the active and the archived stories.
func (c *Creator) Stories() *Table[row.Story, *row.Story] {
	return table(c, row.KindStory, seed.Stories)
}

func (c *Creator) Highlights() *Table[row.Highlight, *row.Highlight] {
	return table(c, row.KindHighlight, seed.Highlights)
}

// Streams returns the past, live and scheduled streams.
func (c *Creator) Streams() *Table[row.Stream, *row.Stream] {
	return table(c, row.KindStream, seed.StreamList)
}

func (c *Creator) StreamComments(stream int64) *Table[row.Comment, *row.Comment] {
	return tableBelow(c, row.KindStreamComment, stream, seed.StreamComments)
}

func (c *Creator) Media() *Table[row.Media, *row.Media] {
	return table(c, row.KindMedia, seed.MediaList)
}

func (c *Creator) Folders() *Table[row.Folder, *row.Folder] {
	return table(c, row.KindFolder, seed.Folders)
}

func (c *Creator) Uploads() *Table[row.Upload, *row.Upload] {
	return table(c, row.KindUpload, seed.Uploads)
}

func (c *Creator) Drafts() *Table[row.Draft, *row.Draft] {
	return table(c, row.KindDraft, seed.Drafts)
}

func (c *Creator) TrackingLinks() *Table[row.Link, *row.Link] {
	return table(c, row.KindTrackingLink, seed.TrackingLinkList)
}

func (c *Creator) TrialLinks() *Table[row.Link, *row.Link] {
	return table(c, row.KindTrialLink, seed.TrialLinkList)
}

func (c *Creator) Promotions() *Table[row.Promotion, *row.Promotion] {
	return table(c, row.KindPromotion, seed.PromotionList)
}

func (c *Creator) Bundles() *Table[row.Bundle, *row.Bundle] {
	return table(c, row.KindBundle, seed.Bundles)
}

func (c *Creator) Payouts() *Table[row.Payout, *row.Payout] {
	return table(c, row.KindPayout, seed.Payouts)
}

func (c *Creator) Notices() *Table[row.Notice, *row.Notice] {
	return table(c, row.KindNotice, seed.Notices)
}

func (c *Creator) SocialLinks() *Table[row.SocialLink, *row.SocialLink] {
	return table(c, row.KindSocialLink, seed.SocialLinks)
}

func (c *Creator) Forms() *Table[row.Form, *row.Form] {
	return table(c, row.KindForm, seed.Forms)
}

// Settings returns the creator's settings. Call SaveSettings after changing them.
func (c *Creator) Settings() *row.Settings {
	return c.settings().All()[0]
}

// SaveSettings marks the settings as changed, so that they are committed.
func (c *Creator) SaveSettings() { c.settings().Put(c.Settings()) }

func (c *Creator) settings() *Table[row.Settings, *row.Settings] {
	return table(c, row.KindSettings, func(o row.Origin) []*row.Settings { return []*row.Settings{seed.Settings(o)} })
}

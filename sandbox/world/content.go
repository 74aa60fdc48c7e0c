package world

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

// Masses are the messages to many.
func (c *Creator) Masses() *Table[row.Mass, *row.Mass] {
	return lazily(c, &c.tables.masses, row.KindMass, seed.MassList)
}

// Posts are the creator's, and a few of those the creator follows.
func (c *Creator) Posts() *Table[row.Post, *row.Post] {
	return lazily(c, &c.tables.posts, row.KindPost, seed.PostList)
}

// Comments are those of one post.
func (c *Creator) Comments(post int64) *Table[row.Comment, *row.Comment] {
	return below(c, &c.tables.comments, row.KindComment, post, func() []*row.Comment { return seed.Comments(c.Profile.Origin, post) })
}

// Labels group posts.
func (c *Creator) Labels() *Table[row.Label, *row.Label] {
	return lazily(c, &c.tables.labels, row.KindLabel, seed.Labels)
}

// Stories are those of the last day, and older ones.
func (c *Creator) Stories() *Table[row.Story, *row.Story] {
	return lazily(c, &c.tables.stories, row.KindStory, seed.Stories)
}

// Highlights are kept stories.
func (c *Creator) Highlights() *Table[row.Highlight, *row.Highlight] {
	return lazily(c, &c.tables.highlights, row.KindHighlight, seed.Highlights)
}

// Streams are live broadcasts: past, present and planned.
func (c *Creator) Streams() *Table[row.Stream, *row.Stream] {
	return lazily(c, &c.tables.streams, row.KindStream, seed.StreamList)
}

// StreamComments are those of one stream.
func (c *Creator) StreamComments(stream int64) *Table[row.Comment, *row.Comment] {
	return below(c, &c.tables.streamComments, row.KindStreamComment, stream, func() []*row.Comment {
		return seed.StreamComments(c.Profile.Origin, stream)
	})
}

// Media are the vault.
func (c *Creator) Media() *Table[row.Media, *row.Media] {
	return lazily(c, &c.tables.media, row.KindMedia, seed.MediaList)
}

// Folders are the vault's.
func (c *Creator) Folders() *Table[row.Folder, *row.Folder] {
	return lazily(c, &c.tables.folders, row.KindFolder, seed.Folders)
}

// Uploads are files on their way into the vault.
func (c *Creator) Uploads() *Table[row.Upload, *row.Upload] {
	return lazily(c, &c.tables.uploads, row.KindUpload, seed.Uploads)
}

// Drafts are saved for later.
func (c *Creator) Drafts() *Table[row.Draft, *row.Draft] {
	return lazily(c, &c.tables.drafts, row.KindDraft, seed.Drafts)
}

// TrackingLinks count who came by them.
func (c *Creator) TrackingLinks() *Table[row.Link, *row.Link] {
	return lazily(c, &c.tables.tracking, row.KindTrackingLink, seed.TrackingLinkList)
}

// TrialLinks let people in for a while.
func (c *Creator) TrialLinks() *Table[row.Link, *row.Link] {
	return lazily(c, &c.tables.trials, row.KindTrialLink, seed.TrialLinkList)
}

// Promotions are discounts for a while.
func (c *Creator) Promotions() *Table[row.Promotion, *row.Promotion] {
	return lazily(c, &c.tables.promotions, row.KindPromotion, seed.PromotionList)
}

// Bundles are several months for less.
func (c *Creator) Bundles() *Table[row.Bundle, *row.Bundle] {
	return lazily(c, &c.tables.bundles, row.KindBundle, seed.Bundles)
}

// Payouts are money that went out.
func (c *Creator) Payouts() *Table[row.Payout, *row.Payout] {
	return lazily(c, &c.tables.payouts, row.KindPayout, seed.Payouts)
}

// Notices are the notification inbox.
func (c *Creator) Notices() *Table[row.Notice, *row.Notice] {
	return lazily(c, &c.tables.notices, row.KindNotice, seed.Notices)
}

// SocialLinks are those of the profile.
func (c *Creator) SocialLinks() *Table[row.SocialLink, *row.SocialLink] {
	return lazily(c, &c.tables.social, row.KindSocialLink, seed.SocialLinks)
}

// Forms are release forms.
func (c *Creator) Forms() *Table[row.Form, *row.Form] {
	return lazily(c, &c.tables.forms, row.KindForm, seed.Forms)
}

// Settings are the creator's choices; call SaveSettings after a change.
func (c *Creator) Settings() *row.Settings {
	return c.settings().All()[0]
}

// SaveSettings notes that they were changed.
func (c *Creator) SaveSettings() { c.settings().Put(c.Settings()) }

func (c *Creator) settings() *Table[row.Settings, *row.Settings] {
	return lazily(c, &c.tables.settings, row.KindSettings, func(o row.Origin) []*row.Settings { return []*row.Settings{seed.Settings(o)} })
}

package seed

import (
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// Numbers of the posts after the published ones: scheduled, archived, private, expired and saved posts.
const (
	scheduledPosts = 4
	archivedPosts  = 3
	privatePosts   = 2
	expiredPosts   = 3
	savedPosts     = 3

	firstScheduled = Posts
	firstArchived  = firstScheduled + scheduledPosts
	firstPrivate   = firstArchived + archivedPosts
	firstExpired   = firstPrivate + privatePosts
	firstSaved     = firstExpired + expiredPosts
	ownPosts       = firstSaved + savedPosts

	// Posts of other creators have numbers from here on, ten for each creator.
	firstForeign = 1000
	perForeign   = 10
	foreignEach  = 3

	// ForeignWidth and ForeignHeight are the size of every picture in posts of other creators.
	ForeignWidth  = 1080
	ForeignHeight = 1350
	// ForeignMedia is the ordinal from which the media of other creators are numbered.
	ForeignMedia = 10_000
)

// PostList returns the creator's posts, and a few of every creator that the creator follows.
func PostList(o row.Origin) []*row.Post {
	list := make([]*row.Post, 0, ownPosts+Followed*foreignEach)
	for n := range ownPosts {
		list = append(list, ownPost(o, n))
	}
	for f := range Followed {
		for k := range foreignEach {
			list = append(list, foreignPost(o, f, k))
		}
	}
	return list
}

func ownPost(o row.Origin, n int) *row.Post {
	r := random(o, row.KindPost, n)
	p := &row.Post{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindPost, n+1)}, Author: o.ID, Text: pick(r, postLines)}
	p.Media = []int64{row.SeedID(o.ID, row.KindMedia, 1+2*n%Photos)}
	if n%3 == 0 {
		p.Media = append(p.Media, row.SeedID(o.ID, row.KindMedia, 2+2*n%Photos))
	}
	switch {
	case n < firstScheduled:
		publishedPost(o, p, n)
	case n < firstArchived:
		i := n - firstScheduled
		p.At = o.Anchor.Add(-day + 15*time.Hour)
		p.Scheduled = o.Anchor.Add(time.Duration(1+i*i)*day + 18*time.Hour)
		return p
	case n < firstPrivate:
		p.Archived, p.Published = true, o.Anchor.Add(-time.Duration(420-n)*day)
	case n < firstExpired:
		p.Private, p.Published = true, o.Anchor.Add(-time.Duration(380-n)*day)
	case n < firstSaved:
		p.Published, p.Days, p.Expired = o.Anchor.Add(-time.Duration(60+n)*day), 7, true
		p.Expires = p.Published.Add(7 * day)
	default:
		p.Saved, p.At = true, o.Anchor.Add(-time.Duration(ownPosts-n)*day)
		return p
	}
	p.At = p.Published.Add(-10 * time.Minute)
	p.Likes = 20 + r.IntN(180)
	p.Views = p.Likes*4 + r.IntN(300)
	return p
}

// publishedPost sets the price, labels, poll and so on of the n-th published post.
func publishedPost(o row.Origin, p *row.Post, n int) {
	p.Published, p.Price = PostAt(o, n), PostPrice(n)
	p.Pinned = n == Posts-2 || n == Posts-24
	if n%2 == 0 {
		p.Labels = []int64{row.SeedID(o.ID, row.KindLabel, 1+n/2%len(labelNames))}
	}
	if n%17 == 5 {
		p.Poll = poll(o, n)
		if n < Posts-17 {
			p.Poll.EndsAt = p.Published.Add(7 * day)
		}
	}
	if n%13 == 8 {
		p.Fundraising = &row.Fundraising{Title: "A new microphone", Target: int64(1+n%5) * 20_000}
	}
	if n == Posts-1 {
		p.Days, p.Expires = 7, p.Published.Add(7*day)
	}
}

func poll(o row.Origin, n int) *row.Poll {
	r := random(o, row.KindPollOption, n)
	p := &row.Poll{Question: "Which one next?"}
	for i, text := range []string{"The red dress", "The long walk", "Something new"} {
		p.Options = append(p.Options, row.PollOption{ID: row.SeedID(o.ID, row.KindPollOption, n*10+i+1), Text: text, Votes: 10 + r.IntN(90)})
	}
	return p
}

func foreignPost(o row.Origin, f, k int) *row.Post {
	n := firstForeign + f*perForeign + k
	r := random(o, row.KindPost, n)
	p := &row.Post{
		Rec: row.Rec{ID: row.SeedID(o.ID, row.KindPost, n)}, Author: row.SeedID(o.ID, row.KindPerson, Fans+f+1), Text: pick(r, postLines),
		Media: []int64{row.SeedID(o.ID, row.KindMedia, ForeignMedia+n)}, Likes: 50 + r.IntN(400), Views: 3000 + r.IntN(900),
		Published: o.Anchor.Add(-time.Duration(16-5*k+f%5)*day + time.Duration(r.IntN(12))*time.Hour),
	}
	p.At = p.Published
	if k == 0 && f%3 == 0 {
		p.Price = 900
	}
	if k == 1 && f%4 == 0 {
		p.Poll = poll(o, n)
	}
	return p
}

// steps holds primes that do not divide the number of fans: cycling through the fans by one of them meets each fan
// once.
var steps = []int{7, 11, 13, 17, 19, 23, 29, 31}

// nth returns the k-th fan in a sequence of distinct fans for record n. Different records have different sequences.
func nth(o row.Origin, n, k int) int64 {
	return row.SeedID(o.ID, row.KindPerson, 1+(n*37+k*steps[n%len(steps)])%Fans)
}

// Liker returns the k-th person who likes a seeded post. k must be less than the post's Likes.
func Liker(o row.Origin, post int64, k int) int64 {
	n, _ := row.Ordinal(o.ID, row.KindPost, post)
	return nth(o, n, k)
}

// perComments is the number of ids reserved for the comments of one post or stream.
const perComments = 100

// Comments returns the comments on a post, oldest first. Every fourth is a reply of the creator.
func Comments(o row.Origin, post int64) []*row.Comment {
	n, ok := row.Ordinal(o.ID, row.KindPost, post)
	switch {
	case ok && n >= 1 && n <= Posts:
		return comments(o, row.KindComment, post, n, PostAt(o, n-1))
	case ok && n >= firstForeign && n < firstForeign+Followed*perForeign && (n-firstForeign)%perForeign < foreignEach:
		return comments(o, row.KindComment, post, n, o.Anchor.Add(-3*day))[:2]
	}
	return nil
}

func comments(o row.Origin, kind row.Kind, parent int64, n int, at time.Time) []*row.Comment {
	r := random(o, kind, n)
	list := make([]*row.Comment, 4+r.IntN(8))
	for i := range list {
		m := &row.Comment{
			Rec: row.Rec{ID: row.SeedID(o.ID, kind, n*perComments+i+1)}, Parent: parent, Author: nth(o, n+i, i), Text: pick(r, fanLines),
			Likes: r.IntN(12), At: at.Add(time.Duration(i+1) * 7 * time.Minute),
		}
		if i%4 == 3 {
			m.Author, m.Text, m.ReplyTo = o.ID, pick(r, creatorLines), list[i-1].ID
		}
		list[i] = m
	}
	return list
}

var labelNames = []string{"Music", "Backstage", "Travel", "Questions", "Best of"}

// Labels returns the labels of the creator.
func Labels(o row.Origin) []*row.Label {
	list := make([]*row.Label, len(labelNames))
	for n, name := range labelNames {
		list[n] = &row.Label{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindLabel, n+1)}, Name: name, At: o.Anchor.Add(time.Duration(n-390) * day)}
	}
	return list
}

const (
	oldStories = 30
	newStories = 3
)

// Stories returns those of the half hour before the anchor, and older ones. The new ones stay for twice the usual day,
// because nothing that is seeded ends on the first day.
func Stories(o row.Origin) []*row.Story {
	list := make([]*row.Story, oldStories+newStories)
	for n := range list {
		r := random(o, row.KindStory, n)
		s := &row.Story{
			Rec: row.Rec{ID: row.SeedID(o.ID, row.KindStory, n+1)}, Media: row.SeedID(o.ID, row.KindMedia, 1+2*(n*7%(Photos/2))), Live: true,
			At: o.Anchor.Add(-time.Duration(oldStories-n)*5*day + 9*time.Hour), Views: 60 + r.IntN(240), Expired: true,
		}
		if n >= oldStories {
			s.At, s.Expired, s.Views = o.Anchor.Add(-time.Duration(oldStories+newStories-n)*10*time.Minute), false, 20+r.IntN(60)
		}
		if n%2 == 0 {
			s.Text = pick(r, postLines)
		}
		s.Expires = s.At.Add(day)
		if !s.Expired {
			s.Expires = o.Anchor.Add(FirstEnd)
		}
		list[n] = s
	}
	return list
}

// Viewing returns the k-th view of a seeded story. k must be less than the story's Views. Every fourth viewer liked it.
func Viewing(o row.Origin, s *row.Story, k int) row.Viewing {
	n, _ := row.Ordinal(o.ID, row.KindStory, s.ID)
	return row.Viewing{Person: nth(o, n, k), At: s.At.Add(time.Duration(k+1) * 6 * time.Second), Liked: k%4 == 0}
}

// StoryLikes returns how many of a seeded story's viewers liked it.
func StoryLikes(views int) int { return (views + 3) / 4 }

// Highlights returns the highlights, each with three stories.
func Highlights(o row.Origin) []*row.Highlight {
	var list []*row.Highlight
	for n, title := range []string{"Tour", "Kitchen disasters", "Questions", "Winter"} {
		h := &row.Highlight{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindHighlight, n+1)}, Title: title, At: o.Anchor.Add(-time.Duration(60-10*n) * day)}
		for i := range 3 {
			h.Stories = append(h.Stories, row.SeedID(o.ID, row.KindStory, 1+n*5+i))
		}
		h.Cover = h.Stories[1]
		list = append(list, h)
	}
	return list
}

var streamTitles = []string{"Sunday songs", "Ask me anything", "Rehearsal", "Late night", "Cooking, badly", "Request hour", "New album talk", "Year's end"}

// LiveStream is the number of the stream that is live at the anchor.
const LiveStream = Streams + 1

// StreamList returns past streams, two scheduled ones, and one that is live.
func StreamList(o row.Origin) []*row.Stream {
	list := make([]*row.Stream, LiveStream)
	for n := range list {
		r := random(o, row.KindStream, n)
		s := &row.Stream{
			Rec: row.Rec{ID: row.SeedID(o.ID, row.KindStream, n+1)}, Title: streamTitles[n%len(streamTitles)], Audience: "fans",
			Starts: StreamAt(o, n), Peak: 60 + r.IntN(200), Likes: 100 + r.IntN(900),
		}
		switch {
		case n < Streams-2:
			s.State, s.Started, s.Ended = "ended", s.Starts, s.Starts.Add(75*time.Minute)
		case n < Streams:
			s.State, s.Peak, s.Likes, s.TipGoal = "scheduled", 0, 0, 50_000
		default:
			s.State, s.Title, s.Description = "live", "Open rehearsal, all day", "Doors open, come and go as you like."
			s.Starts = o.Anchor.Add(-3 * time.Hour)
			s.Started, s.Viewers = s.Starts, s.Peak-r.IntN(40)
		}
		s.At = s.Starts.Add(-3 * day)
		if s.At.After(o.Anchor) {
			s.At = o.Anchor.Add(-day)
		}
		list[n] = s
	}
	return list
}

// StreamComments returns the comments on a stream, oldest first.
func StreamComments(o row.Origin, stream int64) []*row.Comment {
	n, ok := row.Ordinal(o.ID, row.KindStream, stream)
	switch {
	case ok && n >= 1 && n <= Streams-2:
		return comments(o, row.KindStreamComment, stream, n, StreamAt(o, n-1))
	case ok && n == LiveStream:
		return comments(o, row.KindStreamComment, stream, n, o.Anchor.Add(-2*time.Hour))
	}
	return nil
}

// Drafts returns the drafts of messages.
func Drafts(o row.Origin) []*row.Draft {
	var list []*row.Draft
	for n := range 4 {
		r := random(o, row.KindDraft, n)
		d := &row.Draft{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindDraft, n+1)}, Text: pick(r, creatorLines), At: o.Anchor.Add(-time.Duration(8-2*n) * day)}
		if n%2 == 1 {
			d.Price, d.Media = 800, []int64{row.SeedID(o.ID, row.KindMedia, 40+n)}
		}
		list = append(list, d)
	}
	return list
}

// Package messages is the platform's part about conversations: chats, messages, messages to many.
//
// chat.go is what happens inside a chat, whoever causes it; chats.go, messages.go and mass.go are the creator's operations on it;
// campaign.go is how a message to many gets to its recipients; outside.go is what fans do.
package messages

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes are its operations.
func Routes() []wire.Route { return slices.Concat(chatRoutes(), messageRoutes(), massRoutes()) }

// Dues are what happens by itself when its time has come.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{dueSend: startMass, dueDeliver: deliverMass, dueUnsend: withdrawMass}
}

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameMessage: write, frameSent: sendFromPhone, frameSeen: see, frameRemoved: takeBack, frameLiked: likeByFan, frameUnliked: unlikeByFan,
		frameBought: buy, frameRead: readOnPhone, frameTyping: typing, frameCounts: countAgain, frameMass: sendMassFromPhone,
	}
}

// Frames of conversations.
const (
	frameMessage = "chat.message"
	frameSent    = "chat.message_sent"
	frameSeen    = "chat.message_seen"
	frameRemoved = "chat.message_removed"
	frameLiked   = "chat.message_liked"
	frameUnliked = "chat.message_unliked"
	frameBought  = "chat.message_bought"
	frameRead    = "chat.read"
	frameTyping  = "chat.typing"
	frameCounts  = "counts.changed"
	frameMass    = "mass.sent"
	frameQueue   = "queue.published"
)

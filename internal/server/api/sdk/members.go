package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
)

// memberDoc returns the description of a member. place names what contains it, from the outside to the inside.
func memberDoc(place []string, name string) string {
	for _, key := range []string{strings.Join(append(place[:len(place):len(place)], name), "."), place[len(place)-1] + "." + name, name} {
		if doc := memberDocs[key]; doc != "" {
			return doc
		}
	}
	return ""
}

type orderedSchema = apimodel.Object[json.RawMessage]

// described adds descriptions to the members of a schema that have none.
func described(schema json.RawMessage, place ...string) (json.RawMessage, error) {
	if len(schema) == 0 || schema[0] != '{' {
		return schema, nil
	}
	var parts orderedSchema
	if err := json.Unmarshal(schema, &parts); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", strings.Join(place, "."), err)
	}
	for i, part := range parts {
		var err error
		switch part.Name {
		case "items":
			parts[i].Value, err = described(part.Value, place...)
		case "properties":
			parts[i].Value, err = describedMembers(part.Value, place)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(parts)
}

func describedMembers(properties json.RawMessage, place []string) (json.RawMessage, error) {
	var members orderedSchema
	if err := json.Unmarshal(properties, &members); err != nil {
		return nil, fmt.Errorf("read the members of %s: %w", strings.Join(place, "."), err)
	}
	for i, m := range members {
		value, err := described(m.Value, append(place[:len(place):len(place)], m.Name)...)
		if err != nil {
			return nil, err
		}
		members[i].Value = withDoc(value, memberDoc(place, m.Name))
	}
	return json.Marshal(members)
}

// withDoc adds a description to a schema that has none.
func withDoc(schema json.RawMessage, doc string) json.RawMessage {
	if doc == "" || hasDoc(schema) {
		return schema
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return schema // A string is always encoded.
	}
	head := bytes.TrimSuffix(schema, []byte("}"))
	if len(head) > 1 {
		head = append(head[:len(head):len(head)], ',')
	}
	return fmt.Appendf(head[:len(head):len(head)], `"description":%s}`, text)
}

func hasDoc(schema json.RawMessage) bool {
	var have struct{ Description string }
	return json.Unmarshal(schema, &have) == nil && have.Description != ""
}

// memberDocs describes the members of the platform's objects, arguments and events, because a manifest describes only
// some of them. A key is the name of a member, or a place and the name where the member means something else: the name
// of a type, the id of a method, the kind of an event, or the name of the member that contains it.
var memberDocs = map[string]string{
	"Me.email":                           "The email address; null if it is not known.",
	"NotificationPreferences.comments":   "Whether comments cause a notification.",
	"NotificationPreferences.email":      "Whether notifications are also sent by email.",
	"NotificationPreferences.likes":      "Whether likes cause a notification.",
	"NotificationPreferences.purchases":  "Whether purchases cause a notification.",
	"NotificationPreferences.tips":       "Whether tips cause a notification.",
	"PlatformSession.lastSeenAt":         "When the session was last used.",
	"PostStats.days":                     "The figures of each day.",
	"aborted":                            "Whether the upload was aborted.",
	"activeSubscribers":                  "The number of subscribers from it who are still subscribed.",
	"addListIds":                         "The lists to add the user to.",
	"added":                              "The number of items that were added.",
	"all":                                "Whether all chats were read.",
	"amountCents":                        "The amount, in cents.",
	"app":                                "Whether a code of an authenticator app works.",
	"args":                               "The arguments in the order of the catalogue.",
	"at":                                 "The start of the interval that the value belongs to.",
	"audience":                           "Whom it is for.",
	"audio":                              "The number of audio files.",
	"author":                             "The user who wrote it.",
	"authorId":                           "The user who wrote it.",
	"autoRenew":                          "Whether the subscription is renewed automatically.",
	"available":                          "Whether the name is free.",
	"availableCents":                     "The amount that can be paid out, in cents.",
	"avatarUrl":                          "The address of the profile picture; null if there is none.",
	"bio":                                "The text of the profile.",
	"blocked":                            "Whether the user is blocked now.",
	"blockedCountries":                   "The countries from which the profile cannot be seen, as ISO 3166 codes.",
	"bundleId":                           "The id of the bundle.",
	"by":                                 "How the values are grouped.",
	"canEdit":                            "Whether the list can be changed.",
	"canSend":                            "Whether a message can be sent to this person.",
	"canceled":                           "Whether it is canceled now.",
	"cannotSendReason":                   "Why no message can be sent; null if one can.",
	"capabilities":                       "What the creator may do.",
	"changes":                            "The names of the members that changed.",
	"chargeback":                         "The chargeback.",
	"chatId":                             "The id of the chat.",
	"chats":                              "The number of unread chats.",
	"claims":                             "How often it was claimed.",
	"clicks":                             "The number of clicks.",
	"code":                               "The code at the end of the link.",
	"comment":                            "The comment.",
	"commentId":                          "The id of the comment.",
	"comments":                           "The number of comments.",
	"conversionRate":                     "The share of clicks that became subscriptions, from 0 to 1.",
	"count":                              "The number of them.",
	"countries":                          "The countries, as ISO 3166 codes.",
	"country":                            "The country, as an ISO 3166 code.",
	"counts":                             "The number of media files of each type.",
	"coverStoryId":                       "The story whose picture is the cover.",
	"coverUrl":                           "The address of the cover picture; null if there is none.",
	"createdAt":                          "When it was created.",
	"currency":                           "The currency, as an ISO 4217 code.",
	"cursor":                             "The nextCursor of the page before.",
	"customName":                         "The creator's own name for the fan; null if there is none.",
	"data":                               "What happened.",
	"date":                               "The day.",
	"days":                               "The number of days.",
	"deleted":                            "Whether it was deleted.",
	"description":                        "The text that describes it.",
	"device":                             "The kind of device.",
	"discountPercent":                    "The discount in percent; null if there is none.",
	"displayName":                        "The name that the profile shows.",
	"draftId":                            "The id of the draft.",
	"durationDays":                       "The number of free days.",
	"durationSec":                        "The duration, in seconds.",
	"editedAt":                           "When it was last edited; null if never.",
	"eligible":                           "Whether a payout can be requested.",
	"email":                              "The email address.",
	"enabled":                            "Whether it is switched on.",
	"endedAt":                            "When it ended; null if it has not ended.",
	"endsAt":                             "When it ends; null if it does not end.",
	"error":                              "Why it failed; null if it did not fail.",
	"etag":                               "The platform's tag of the part.",
	"event":                              "The kind of event.",
	"excludeListIds":                     "The lists whose users do not get the message.",
	"exists":                             "Whether the file was uploaded before.",
	"expiredAt":                          "When the subscription expired.",
	"expiresAt":                          "When it expires; null if it does not expire.",
	"expiresInDays":                      "The number of days until it expires.",
	"face":                               "Whether a selfie works.",
	"fans.listTop.by":                    "What the fans are ranked by.",
	"fans.removeDiscount.result.removed": "Whether the discount was removed.",
	"fansCount":                          "The number of fans.",
	"feeCents":                           "The platform's fee, in cents.",
	"feesCents":                          "The platform's fees, in cents.",
	"fileName":                           "The name of the file.",
	"filter":                             "Which chats to list.",
	"folderId":                           "The id of the folder.",
	"folderIds":                          "The folders that contain the file.",
	"following":                          "Whether the creator follows the user now.",
	"form":                               "The tax form.",
	"frequency":                          "How often payouts are made.",
	"from":                               "The start of the period; null if it has none.",
	"fromUser":                           "The user who sent the message.",
	"fromUserId":                         "The user who sent the message.",
	"fundraising":                        "The goal of a fundraising post; null if it is none.",
	"gif":                                "The number of animated pictures.",
	"gifId":                              "The id of the GIF.",
	"grossCents":                         "The amount before fees, in cents.",
	"hasMore":                            "Whether there are more items.",
	"headers":                            "The headers to send with the part.",
	"height":                             "The height in pixels; null if it is not known.",
	"hidden":                             "Whether the chat is hidden now.",
	"highlightId":                        "The id of the highlight.",
	"id":                                 "Its id.",
	"includeListIds":                     "The lists whose users get the message.",
	"intervalHours":                      "The hours between two drafts.",
	"isArchived":                         "Whether the post is archived.",
	"isBlocked":                          "Whether the creator has blocked the user.",
	"isCreator":                          "Whether the user is a creator.",
	"isCurrent":                          "Whether this is the session of the connection.",
	"isDefault":                          "Whether payouts go to this method.",
	"isFree":                             "Whether the message costs nothing.",
	"isHidden":                           "Whether the chat is hidden.",
	"isLiked":                            "Whether it is liked.",
	"isLocked":                           "Whether the content must be paid for and was not paid for.",
	"isMuted":                            "Whether the chat is muted.",
	"isOpened":                           "Whether the recipient has opened the message.",
	"isPinned":                           "Whether it is pinned.",
	"isRead":                             "Whether the notification was read.",
	"isRestricted":                       "Whether the creator has restricted the user.",
	"isSystem":                           "Whether the platform made the folder.",
	"isTip":                              "Whether the message came with a tip.",
	"isVerified":                         "Whether the platform has verified the person.",
	"item":                               "The item of the queue.",
	"items":                              "The items of the page.",
	"joined":                             "The users who joined.",
	"kind":                               "What kind it is.",
	"label":                              "The name that is shown.",
	"labelId":                            "The id of the label.",
	"labelIds":                           "The labels of the post.",
	"labels":                             "The labels of the post.",
	"lapsedDays":                         "The number of days without a subscription.",
	"lastActivityAt":                     "When the fan was last active; null if that is not known.",
	"lastMessage":                        "The last message of the chat; null if there is none.",
	"lastSeenAt":                         "When the person was last online; null if that is not known.",
	"left":                               "The users who left.",
	"liked":                              "Whether it is liked now.",
	"likes":                              "The number of likes.",
	"limit":                              "The largest number of items to return.",
	"lines":                              "The lines of the statement.",
	"linkId":                             "The id of the link; null if no link was used.",
	"linkUserId":                         "The user whose profile the story links to.",
	"list":                               "The list.",
	"listId":                             "The id of the list.",
	"listIds":                            "The ids of the lists.",
	"location":                           "The place that the profile shows; null if there is none.",
	"lockText":                           "Whether the text is hidden until the message is paid for.",
	"lostSubscribers":                    "The number of subscriptions that ended.",
	"massMessage":                        "The mass message.",
	"massMessageId":                      "The id of the mass message.",
	"massMessages":                       "The number of mass messages.",
	"maxClaims":                          "How often it can be claimed; null if there is no limit.",
	"media":                              "The media files.",
	"mediaCount":                         "The number of media files.",
	"mediaId":                            "The id of the media file; null if there is none.",
	"mediaIds":                           "The media files to attach.",
	"mentionUserIds":                     "The users whom the post mentions.",
	"mentions":                           "Whether mentions cause a notification.",
	"message":                            "The text that comes with it; null if there is none.",
	"messageDeleted.by":                  "Who deleted the message.",
	"messageId":                          "The id of the message.",
	"messagesCents":                      "The amount that the fan paid for messages, in cents.",
	"method":                             "How the payout is made.",
	"metric":                             "What the chart shows.",
	"mimeType":                           "The media type of the file, such as image/jpeg.",
	"minCents":                           "The smallest amount of a payout, in cents.",
	"minPayoutCents":                     "The smallest amount of a payout, in cents.",
	"minSpendCents":                      "The smallest amount that the fans to list have paid, in cents.",
	"months":                             "The number of months.",
	"muted":                              "Whether the chat is muted now.",
	"name":                               "The name.",
	"netCents":                           "The amount after fees, in cents.",
	"newSubscribers":                     "The number of new subscribers.",
	"nextAt":                             "When the next draft is published; null if none is due.",
	"nextCursor":                         "Send it as cursor to get the next page; null on the last page.",
	"nextPayoutAt":                       "When the next payout is made; null if none is planned.",
	"note":                               "The creator's note on the fan; null if there is none.",
	"notification":                       "The notification.",
	"notificationIds":                    "The notifications.",
	"notifications":                      "The number of unread notifications.",
	"number":                             "The number of the part, from 1.",
	"ok":                                 "Whether the platform accepted it.",
	"online":                             "Whether the user is online.",
	"openingCents":                       "The balance at the start of the period, in cents.",
	"optionId":                           "The option to vote for.",
	"options":                            "The options of the poll.",
	"order":                              "The order of the items.",
	"origin":                             "Where the message was sent from.",
	"paidAt":                             "When the payout was made; null if it was not made yet.",
	"partNumber":                         "The number of the part, from 1.",
	"partSize":                           "The size of each part, in bytes.",
	"parts":                              "The parts of the file.",
	"payout":                             "The payout.",
	"payoutFrequency":                    "How often payouts are made.",
	"payoutId":                           "The id of the payout.",
	"payoutsCents":                       "The amount that was paid out, in cents.",
	"peakViewers":                        "The largest number of viewers at one time.",
	"pendingCents":                       "The amount that cannot be paid out yet, in cents.",
	"percent":                            "The discount in percent.",
	"photo":                              "The number of pictures.",
	"pinned":                             "Whether it is pinned now.",
	"points":                             "The values of the chart.",
	"poll":                               "The poll of the post; null if it has none.",
	"post":                               "The post.",
	"postId":                             "The id of the post.",
	"posts":                              "The number of posts.",
	"postsCents":                         "The amount that the fan paid for posts, in cents.",
	"postsCount":                         "The number of posts.",
	"preferences":                        "What causes a notification.",
	"preferences.comments":               "Whether comments cause a notification.",
	"preferences.email":                  "Whether notifications are also sent by email.",
	"preferences.likes":                  "Whether likes cause a notification.",
	"preferences.purchases":              "Whether purchases cause a notification.",
	"preferences.tips":                   "Whether tips cause a notification.",
	"previewMediaIds":                    "The media files that can be seen before paying.",
	"priceCents":                         "The price, in cents; 0 if it costs nothing.",
	"priorityChats":                      "The number of unread chats with priority.",
	"private":                            "Whether the archived post is visible only to the creator.",
	"progressCents":                      "The amount that was raised so far, in cents.",
	"promotionId":                        "The id of the promotion; null if there is none.",
	"promotions":                         "Whether promotions cause a notification.",
	"publishedAt":                        "When it was published; null if it was not published yet.",
	"purchasedAt":                        "When it was paid for.",
	"purchasedCount":                     "The number of people who paid for it.",
	"purchases":                          "The number of purchases.",
	"purchasesCents":                     "The amount that was paid for it, in cents.",
	"push":                               "Whether notifications are also sent to the creator's devices.",
	"quality":                            "Which version of the file to download.",
	"query":                              "The text to search for.",
	"question":                           "The question of the poll.",
	"questionText":                       "The question that the story asks.",
	"queue":                              "The number of posts and messages that are scheduled.",
	"queueId":                            "The id in the queue; null if it is not queued.",
	"ratio":                              "The share of payments that were charged back, from 0 to 1.",
	"raw":                                "The event as the platform sent it.",
	"read":                               "The number of items that were marked.",
	"readAt":                             "When the message was read.",
	"reason":                             "Why; null if there is no reason.",
	"reasons":                            "Why no payout can be requested; empty if one can.",
	"recipients":                         "The number of recipients.",
	"refId":                              "The id of what it is about; null if that is nothing.",
	"refKind":                            "The kind of what it is about; null if that is nothing.",
	"region":                             "Where the session is used.",
	"releaseFormIds":                     "The release forms of the people who are shown.",
	"removeListIds":                      "The lists to remove the user from.",
	"removed":                            "The number of items that were removed.",
	"renewals":                           "How often the subscription was renewed.",
	"renewedSubscribers":                 "The number of subscriptions that were renewed.",
	"replyToId":                          "The id of what it answers; null if it answers nothing.",
	"reported":                           "Whether the report was accepted.",
	"requestedAt":                        "When it was requested.",
	"restricted":                         "Whether the user is restricted now.",
	"result":                             "The result of the method.",
	"revenueCents":                       "The earnings from it, in cents.",
	"revoked":                            "Whether the session was ended.",
	"saveForLater":                       "Whether to save the post as a draft.",
	"scheduledAt":                        "When it is published; null if it is published immediately.",
	"sentAt":                             "When it was sent; null if it was not sent yet.",
	"sentCount":                          "The number of people to whom it was sent.",
	"sessionId":                          "The id of the session.",
	"shared":                             "Whether the link is shared now.",
	"size":                               "The size in bytes.",
	"sizeBytes":                          "The size in bytes; null if it is not known.",
	"skipped":                            "The users who were not added.",
	"sms":                                "Whether a code by SMS works.",
	"source":                             "Where the fan came from.",
	"spenders":                           "The number of people who paid for something.",
	"startedAt":                          "When it started; null if it has not started.",
	"startsAt":                           "When it starts.",
	"state":                              "The state.",
	"statistics.countries.result.items":  "The countries, those with the most earnings first.",
	"status":                             "The status.",
	"stillUrl":                           "The address of a still picture.",
	"stopped":                            "Whether the stream was stopped.",
	"stories":                            "The number of stories.",
	"story":                              "The story.",
	"storyId":                            "The id of the story.",
	"storyIds":                           "The stories of the highlight.",
	"stream":                             "The stream.",
	"streamId":                           "The id of the stream.",
	"streams":                            "The number of streams.",
	"streamsCents":                       "The amount that the fan paid in streams, in cents.",
	"submittedAt":                        "When the form was submitted; null if it was not.",
	"subscribePriceCents":                "The price of a month, in cents; 0 if the profile is free.",
	"subscribedAt":                       "When the subscription began.",
	"subscribers":                        "The number of subscribers from it.",
	"subscriptions":                      "Whether subscriptions cause a notification.",
	"subscriptionsCents":                 "The amount that the fan paid for subscriptions, in cents.",
	"system":                             "Whether the platform's own news cause a notification.",
	"tags":                               "The creator's own words for it.",
	"target":                             "What the tip was for.",
	"targetCents":                        "The goal, in cents.",
	"text":                               "The text.",
	"thumbUrl":                           "The address of a small picture; null if there is none.",
	"timeZone":                           "The time zone, such as Europe/London.",
	"tipCents":                           "The amount of the tip, in cents; null if there is none.",
	"tipGoalCents":                       "The amount of tips to reach, in cents; null if there is no goal.",
	"tips":                               "The number of tips.",
	"tipsCents":                          "The amount of the tips, in cents.",
	"title":                              "The title; null if there is none.",
	"to":                                 "The end of the period; null if it has none.",
	"toUserId":                           "The user to whom the message was sent.",
	"topPercentage":                      "The creator is among this share of all creators, in percent.",
	"total":                              "The total.",
	"totalCents":                         "The amount that the fan paid in total, in cents.",
	"totalSpentCents":                    "The amount that the fan paid in total, in cents.",
	"transaction":                        "The transaction.",
	"transactionId":                      "The id of the transaction.",
	"transactions":                       "The number of transactions.",
	"trialDays":                          "The number of free days; null if there are none.",
	"twoFactor":                          "The ways in which the platform can ask for a code.",
	"type":                               "Which type it is.",
	"unknown.name":                       "The platform's own name of the event.",
	"unread":                             "The unread counters.",
	"unreadCount":                        "The number of unread messages.",
	"unreadOnly":                         "Whether to list only what was not read.",
	"unsendAfterSec":                     "The number of seconds after which the message is withdrawn.",
	"unsendableUntil":                    "Until when the message can be withdrawn; null if it cannot.",
	"unsent":                             "Whether the message was withdrawn.",
	"updatedAt":                          "When it last changed; null if never.",
	"uploadId":                           "The id of the upload; null if there is none.",
	"url":                                "The address.",
	"usedAt":                             "When it was used.",
	"user":                               "The user; null if the platform names none.",
	"userAgent":                          "The User-Agent of the browser.",
	"userId":                             "The id of the user.",
	"userIds":                            "The ids of the users.",
	"username":                           "The name in the address of the profile.",
	"usersCount":                         "The number of users.",
	"value":                              "The value.",
	"video":                              "The number of videos.",
	"viewedAt":                           "When the story was viewed.",
	"viewedCount":                        "The number of people who viewed it.",
	"viewers":                            "The number of viewers.",
	"views":                              "The number of views.",
	"visitors":                           "The number of visitors.",
	"votedOptionId":                      "The option that the creator voted for; null if none.",
	"votes":                              "The number of votes.",
	"websiteUrl":                         "The address of the person's own website; null if there is none.",
	"welcomeMessageEnabled":              "Whether new fans get a welcome message.",
	"width":                              "The width in pixels; null if it is not known.",
	"withholdingPercent":                 "The share that is withheld for taxes, in percent.",
}

-- name: PersonByIdentity :one
SELECT p.id, p.email, p.name FROM person p JOIN person_identity i ON i.person_id = p.id WHERE i.issuer = @issuer AND i.subject = @subject;

-- name: GetPerson :one
SELECT id, email, name FROM person WHERE id = @id;

-- name: AddPerson :exec
INSERT INTO person (id, email, name, created_at) VALUES (@id, @email, @name, @created_at);

-- name: AddIdentity :execrows
INSERT INTO person_identity (issuer, subject, person_id, created_at) VALUES (@issuer, @subject, @person_id, @created_at)
ON CONFLICT DO NOTHING;

-- name: UpdatePerson :exec
UPDATE person SET email = @email, name = @name WHERE id = @id;

-- name: OrgsOfPerson :many
-- tenant: the list of a person's orgs is the person's own
SELECT org_id, role, last_seen_at FROM org_member WHERE person_id = @person_id ORDER BY last_seen_at DESC NULLS LAST, org_id;

-- name: RoleOf :one
SELECT role FROM org_member WHERE org_id = @org_id AND person_id = @person_id FOR SHARE;

-- name: Members :many
SELECT p.id, p.email, p.name, m.role, m.joined_at, m.last_seen_at
FROM org_member m JOIN person p ON p.id = m.person_id
WHERE m.org_id = @org_id ORDER BY m.joined_at, p.id;

-- name: GetMember :one
SELECT p.id, p.email, p.name, m.role, m.joined_at, m.last_seen_at
FROM org_member m JOIN person p ON p.id = m.person_id
WHERE m.org_id = @org_id AND m.person_id = @person_id;

-- name: LockMember :one
SELECT role FROM org_member WHERE org_id = @org_id AND person_id = @person_id FOR UPDATE;

-- name: HasMember :one
SELECT EXISTS (
    SELECT 1 FROM org_member m JOIN person p ON p.id = m.person_id WHERE m.org_id = @org_id AND p.email = @email
);

-- name: CountMembers :one
SELECT count(*) FROM org_member WHERE org_id = @org_id;

-- name: CountOwners :one
SELECT count(*) FROM org_member WHERE org_id = @org_id AND role = 'owner';

-- name: AddMember :execrows
INSERT INTO org_member (org_id, person_id, role, joined_at) VALUES (@org_id, @person_id, @role, @joined_at)
ON CONFLICT DO NOTHING;

-- name: SetRole :exec
UPDATE org_member SET role = @role WHERE org_id = @org_id AND person_id = @person_id;

-- name: RemoveMember :exec
DELETE FROM org_member WHERE org_id = @org_id AND person_id = @person_id;

-- name: LockPerson :one
SELECT id FROM person WHERE id = @id FOR UPDATE;

-- name: SeenIn :exec
UPDATE org_member SET last_seen_at = @now WHERE org_id = @org_id AND person_id = @person_id;

-- name: Invitations :many
SELECT * FROM invitation WHERE org_id = @org_id AND expires_at > @now ORDER BY created_at, id;

-- name: CountInvitations :one
SELECT count(*) FROM invitation WHERE org_id = @org_id AND expires_at > @now;

-- name: AddInvitation :exec
INSERT INTO invitation (org_id, id, hash, email, role, invited_by_kind, invited_by_label, created_at, expires_at)
VALUES (@org_id, @id, @hash, @email, @role, @invited_by_kind, @invited_by_label, @created_at, @expires_at);

-- name: LockInvitation :one
SELECT * FROM invitation WHERE org_id = @org_id AND id = @id AND expires_at > @now FOR UPDATE;

-- name: LockInvitationTo :one
SELECT * FROM invitation WHERE org_id = @org_id AND email = @email FOR UPDATE;

-- name: DropInvitation :exec
DELETE FROM invitation WHERE org_id = @org_id AND id = @id;

-- name: InvitationByHash :one
-- tenant: the token is the proof of which org invites
SELECT * FROM invitation WHERE hash = @hash AND expires_at > @now;

-- name: TakeInvitation :one
-- tenant: the token is the proof of which org invites
DELETE FROM invitation WHERE hash = @hash AND email = @email AND expires_at > @now RETURNING *;

-- name: IsInvited :one
-- tenant: whether anybody expects a person who is new here
SELECT EXISTS (SELECT 1 FROM invitation WHERE email = @email AND expires_at > @now);

-- name: TakeFromOperators :many
-- tenant: the orgs that operators have given to an address
DELETE FROM invitation WHERE email = @email AND invited_by_kind = 'operator' AND expires_at > @now RETURNING *;

-- name: TrimInvitations :exec
-- tenant: whoever they were for, they are over
DELETE FROM invitation WHERE expires_at < @before;

-- name: AddSession :exec
INSERT INTO browser_session (id, hash, person_id, current_org, support_org, support_reason, access_id, support_operator, user_agent, created_at, last_seen_at, ends_at, authenticated_at)
VALUES (@id, @hash, @person_id, @current_org, @support_org, @support_reason, @access_id, @support_operator, @user_agent, @created_at, @created_at, @ends_at, @authenticated_at);

-- name: AuthenticatedAt :one
SELECT coalesce(authenticated_at, created_at)::timestamptz FROM browser_session WHERE id = @id;

-- name: SessionByHash :one
SELECT * FROM browser_session WHERE hash = @hash;

-- name: HoldSession :one
SELECT * FROM browser_session WHERE hash = @hash FOR SHARE;

-- name: LockSession :one
SELECT * FROM browser_session WHERE hash = @hash FOR UPDATE;

-- name: SessionsByID :many
SELECT * FROM browser_session WHERE id = ANY (@ids::text[]) ORDER BY created_at DESC, id DESC;

-- name: PeopleByID :many
SELECT id, email, name FROM person WHERE id = ANY (@ids::text[]);

-- name: SetOrg :exec
UPDATE browser_session SET current_org = @current_org WHERE id = @id;

-- name: Seen :one
UPDATE browser_session SET last_seen_at = @now WHERE id = @id AND ended_at IS NULL AND last_seen_at < @now RETURNING ends_at;

-- name: EndSession :execrows
UPDATE browser_session SET ended_at = @now WHERE id = @id AND ended_at IS NULL;

-- name: DropSessions :exec
DELETE FROM browser_session WHERE person_id = @person_id;

-- name: DropIdentities :exec
DELETE FROM person_identity WHERE person_id = @person_id;

-- name: DropPerson :exec
DELETE FROM person WHERE id = @id;

-- name: LeaveOrg :exec
UPDATE browser_session SET current_org = '' WHERE current_org = @current_org;

-- name: DropSupport :exec
DELETE FROM browser_session WHERE support_org = @support_org;

-- name: TrimSessions :exec
DELETE FROM browser_session WHERE ends_at < @before;

-- name: AddOffer :exec
INSERT INTO support_offer (org_id, hash, reason, expires_at, access_id, operator) VALUES (@org_id, @hash, @reason, @expires_at, @access_id, @operator);

-- name: OfferByHash :one
-- tenant: the token is the proof of which org it is for
SELECT * FROM support_offer WHERE hash = @hash AND expires_at > @now;

-- name: TakeOffer :one
-- tenant: the token is the proof of which org it is for
DELETE FROM support_offer WHERE hash = @hash AND expires_at > @now RETURNING *;

-- name: TrimOffers :exec
-- tenant: whoever they were for, they are over
DELETE FROM support_offer WHERE expires_at < @before;

-- name: AddAccess :one
INSERT INTO support_access (org_id, id, operator_id, operator, reason, expires_at)
VALUES (@org_id, @id, @operator_id, @operator, @reason, now() + @lasts::interval) RETURNING *;

-- name: ReplaceAccess :exec
-- An operator has one open request per org.
UPDATE support_access SET ended_at = now(), ended_by = @operator
WHERE org_id = @org_id AND operator_id = @operator_id AND granted_at IS NULL AND ended_at IS NULL;

-- name: CountAccess :one
SELECT count(*) FROM support_access WHERE org_id = @org_id AND requested_at > now() - interval '1 day';

-- name: Accesses :many
SELECT sqlc.embed(a), (a.expires_at <= now())::bool AS expired FROM support_access a
WHERE a.org_id = @org_id AND a.requested_at > now() - interval '90 days' ORDER BY a.requested_at DESC, a.id DESC LIMIT 100;

-- name: GetAccess :one
SELECT sqlc.embed(a), (a.expires_at <= now())::bool AS expired FROM support_access a WHERE a.org_id = @org_id AND a.id = @id;

-- name: GrantAccess :one
UPDATE support_access SET granted_at = now(), granted_by = @granted_by, expires_at = now() + @lasts::interval
WHERE org_id = @org_id AND id = @id AND granted_at IS NULL AND ended_at IS NULL AND expires_at > now() RETURNING *;

-- name: EndAccess :one
UPDATE support_access SET ended_at = now(), ended_by = @ended_by
WHERE org_id = @org_id AND id = @id AND ended_at IS NULL AND expires_at > now() RETURNING *;

-- name: GrantedAccess :one
-- The lock keeps the access from being revoked before the transaction ends.
SELECT * FROM support_access
WHERE org_id = @org_id AND operator_id = @operator_id AND granted_at IS NOT NULL AND ended_at IS NULL AND expires_at > now()
ORDER BY expires_at DESC LIMIT 1 FOR SHARE;

-- name: HoldAccess :one
SELECT * FROM support_access
WHERE org_id = @org_id AND id = @id AND granted_at IS NOT NULL AND ended_at IS NULL AND expires_at > now() FOR SHARE;

-- name: HasOwner :one
SELECT EXISTS (SELECT 1 FROM org_member WHERE org_id = @org_id AND role = 'owner');

-- name: BrowsersOfAccess :many
SELECT id FROM browser_session WHERE access_id = @access_id AND ended_at IS NULL;

-- name: AccessOf :one
SELECT access_id FROM browser_session WHERE id = @id;

-- name: TrimAccess :exec
-- tenant: expired rows of all organisations
DELETE FROM support_access WHERE expires_at < now() - interval '90 days';

-- name: AddDevice :execrows
-- tenant: a tool asks before anyone has said for which org
INSERT INTO device_grant (hash, user_hash, machine, address, created_at, expires_at, interval_sec)
VALUES (@hash, @user_hash, @machine, @address, now(), now() + make_interval(secs => @ttl_sec::int), @interval_sec)
ON CONFLICT (user_hash) DO NOTHING;

-- name: TrimDevices :exec
-- tenant: they are over, for whatever org they were
DELETE FROM device_grant WHERE expires_at < now() - interval '1 hour';

-- name: DeviceByUserCode :one
-- tenant: the code is the proof, and no org has approved it yet
SELECT * FROM device_grant WHERE user_hash = @user_hash AND expires_at > now() AND decision = '';

-- name: DecideDevice :execrows
-- tenant: the code is the proof, and no org has approved it yet
UPDATE device_grant SET decision = @decision, person_id = @person_id, approved_org = @approved_org
WHERE user_hash = @user_hash AND expires_at > now() AND decision = '';

-- name: LockDevice :one
-- tenant: the hash of the tool's code is the proof
SELECT machine, decision, person_id, approved_org, expires_at <= now() AS expired,
    coalesce(polled_at > now() - make_interval(secs => interval_sec), false)::bool AS early
FROM device_grant WHERE hash = @hash FOR UPDATE;

-- name: PollDevice :exec
-- tenant: the hash of the tool's code is the proof
UPDATE device_grant SET polled_at = now(), interval_sec = least(interval_sec + @more_sec::int, 60) WHERE hash = @hash;

-- name: DropDevice :exec
-- tenant: the hash of the tool's code is the proof
DELETE FROM device_grant WHERE hash = @hash;

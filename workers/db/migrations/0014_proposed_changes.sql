-- Consent to a change of a constitutive edge's weight, properties or flag. `change` holds what of the edge would be
-- different, as it would be: {"weight": 0.5, "properties": {"since": 1831}}. It is what consent is given to, and jsonb
-- compares it whatever the order of its keys.
alter table proposals
    add column change jsonb check (jsonb_typeof(change) = 'object' and change <> '{}'),
    drop constraint proposals_action_check,
    add constraint proposals_action_check check (action in ('reclassify', 'delete', 'change')),
    add check ((action = 'change') = (change is not null));

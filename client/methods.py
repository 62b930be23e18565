"""The methods of both clients. Written by `make generate` from docs/openapi.json: edit neither."""

from engramq.client import calls
from engramq.client.call import CallMethod


class Calls:
    """One method a tool; each raises EngramqFailure."""

    store = CallMethod(calls.store)
    recent = CallMethod(calls.recent)
    search = CallMethod(calls.search)
    get = CallMethod(calls.get)
    update = CallMethod(calls.update)
    forget = CallMethod(calls.forget)
    standing = CallMethod(calls.standing)
    why = CallMethod(calls.why)
    survey = CallMethod(calls.survey)
    supersede = CallMethod(calls.supersede)
    restore = CallMethod(calls.restore)
    import_many = CallMethod(calls.import_many)
    verify = CallMethod(calls.verify)
    promote = CallMethod(calls.promote)
    contradictions = CallMethod(calls.contradictions)
    share = CallMethod(calls.share)
    unshare = CallMethod(calls.unshare)
    connect = CallMethod(calls.connect)
    disconnect = CallMethod(calls.disconnect)
    connect_by_query = CallMethod(calls.connect_by_query)
    connect_many = CallMethod(calls.connect_many)
    record_outcome = CallMethod(calls.record_outcome)
    add_node = CallMethod(calls.add_node)
    get_node = CallMethod(calls.get_node)
    add_edge = CallMethod(calls.add_edge)
    list_edges = CallMethod(calls.list_edges)
    delete_edge = CallMethod(calls.delete_edge)
    delete_node = CallMethod(calls.delete_node)
    get_edge = CallMethod(calls.get_edge)
    neighbors = CallMethod(calls.neighbors)
    find_path = CallMethod(calls.find_path)
    reclassify_edge = CallMethod(calls.reclassify_edge)
    decide_proposal = CallMethod(calls.decide_proposal)
    list_proposals = CallMethod(calls.list_proposals)
    begin_session = CallMethod(calls.begin_session)
    breadcrumbs = CallMethod(calls.breadcrumbs)
    guide = CallMethod(calls.guide)
    get_command = CallMethod(calls.get_command)
    audit = CallMethod(calls.audit)
    stats = CallMethod(calls.stats)
